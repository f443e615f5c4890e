// Mutation of algorithms: the messages of every algorithm are damaged in every way a mistake would,
// one at a time, and the symbolic checker must detect each damage.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/collectives/symbolic_check.hpp"
#include "test_clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;

using Messages = std::vector<Message>;

// The messages without one of them. Nothing waits for it any more, and later messages are
// renumbered.
Messages without(const Messages& messages, std::uint32_t dropped) {
  Messages rest;
  for (std::uint32_t index = 0; index < messages.size(); ++index) {
    if (index == dropped) continue;
    Message message = messages[index];
    std::erase(message.after, dropped);
    for (std::uint32_t& before : message.after) before -= before > dropped ? 1 : 0;
    rest.push_back(std::move(message));
  }
  return rest;
}

struct Mutated {
  const CollectiveAlgorithm& algorithm;
  SymbolicCase the_case;
  Messages messages;
  [[nodiscard]] bool wrong(const Messages& spoilt) const {
    return symbolic_fault(the_case, spoilt).has_value();
  }
};

constexpr double kBytes = 4e3;  // so few that pipelines have one chunk: each message once

// Two nodes whose leaf switch can reduce (SHARP), and one node (NVLS). An algorithm is tested on
// the first cluster that it accepts.
std::vector<Cluster> clusters() {
  return {make_cluster({.nodes = 2, .gpus = 4, .reduces = true}), make_cluster({.gpus = 8})};
}

// Calls check(row) for every algorithm, on eight ranks (send_recv: two). Fails if no cluster
// accepts an algorithm, because it would be untested.
template <class Check>
void for_every_row(Check check) {
  const std::vector<Cluster> all = clusters();
  for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
    SCOPED_TRACE(fmt::format("{} {}", to_string(algorithm->op()), algorithm->name()));
    const std::vector<std::uint32_t> gpus =
        gpus_of(algorithm->op() == CollectiveOp::SendRecv ? 2 : 8);
    const auto taken = std::ranges::find_if(all, [&](const Cluster& cluster) {
      return !algorithm->refusal({.cluster = cluster, .gpus = gpus});
    });
    ASSERT_TRUE(taken != all.end()) << "no cluster takes it";
    const PlacedGroup placed{.cluster = *taken, .gpus = gpus};
    const Mutated row{
        .algorithm = *algorithm,
        .the_case = {.op = algorithm->op(),
                     .ranks = static_cast<std::uint32_t>(gpus.size()),
                     .pieces = algorithm->pieces(placed),
                     .bytes = kBytes,
                     .switches = static_cast<std::uint32_t>(algorithm->switches(placed).size())},
        .messages = algorithm->messages(placed, Bytes{kBytes})};
    ASSERT_FALSE(row.messages.empty());
    ASSERT_FALSE(row.wrong(row.messages));
    check(row);
  }
}

// Whether a switch sends a copy back to its source. A switch copies to all its members, also to the
// source.
bool returns_to_its_giver(const Mutated& row, const Message& message) {
  return message.from >= row.the_case.ranks &&
         std::ranges::any_of(message.after, [&](std::uint32_t before) {
           return row.messages[before].from == message.to;
         });
}

// Is every message needed?
TEST(Mutation, EveryMessageIsNeeded) {
  for_every_row([](const Mutated& row) {
    for (std::uint32_t index = 0; index < row.messages.size(); ++index)
      EXPECT_TRUE(row.wrong(without(row.messages, index)) ||
                  returns_to_its_giver(row, row.messages[index]))
          << "without message " << index;
  });
}

// Must every message have the bytes of its pieces?
TEST(Mutation, EveryMessageHasTheBytesOfItsPieces) {
  for_every_row([](const Mutated& row) {
    Messages spoilt = row.messages;
    for (Message& message : spoilt) {
      const double bytes = message.bytes;
      message.bytes *= 1.0 + 1e-6;
      EXPECT_TRUE(row.wrong(spoilt));
      message.bytes = bytes;
    }
  });
}

// Are adding and replacing distinguished? A message that adds must not replace, and one that
// replaces must not add, if the receiver holds anything.
TEST(Mutation, AddingAndReplacingAreDistinguished) {
  std::size_t rows = 0;
  for_every_row([&](const Mutated& row) {
    const bool adds = std::ranges::any_of(row.messages, &Message::reduce);
    if (!adds) return;
    Messages spoilt = row.messages;
    for (Message& message : spoilt)
      if (message.reduce) message.reduce = false;
    EXPECT_TRUE(row.wrong(spoilt));
    ++rows;
  });
  EXPECT_GE(rows, 14U + 7U + 2U) << "all_reduce, reduce_scatter and reduce add";
}

// Must every message go to its receiver?
TEST(Mutation, EveryMessageGoesToItsReceiver) {
  std::size_t messages = 0;
  for_every_row([&](const Mutated& row) {
    for (std::uint32_t index = 0; index < row.messages.size(); ++index) {
      Messages spoilt = row.messages;
      Message& message = spoilt[index];
      message.to = (message.to + 1) % row.the_case.ranks;
      if (message.to == message.from) message.to = (message.to + 1) % row.the_case.ranks;
      if (message.to == row.messages[index].to) continue;  // two ranks have no other receiver
      EXPECT_TRUE(row.wrong(spoilt)) << "message " << index;
      ++messages;
    }
  });
  EXPECT_GE(messages, 36U * 7U) << "eight ranks exchange seven messages or more";
}

// Must a piece have arrived before it is passed on?
TEST(Mutation, APieceArrivesBeforeItIsPassedOn) {
  std::size_t passed_on = 0;
  for_every_row([&](const Mutated& row) {
    for (std::uint32_t index = 0; index < row.messages.size(); ++index) {
      if (row.messages[index].after.empty()) continue;
      Messages spoilt = row.messages;
      spoilt[index].after.clear();
      EXPECT_TRUE(row.wrong(spoilt)) << "message " << index;
      ++passed_on;
    }
  });
  EXPECT_GE(passed_on, 13U * 8U) << "those of a ring all_reduce after its first step, and more";
}

}  // namespace
}  // namespace trainyard
