// Can a wrong algorithm be registered unnoticed? Every row's messages are spoilt in every way a
// mistake would, one at a time, and the symbolic checker must see each of them.
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

// Nothing waits for a message that is gone; later messages move up.
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

// Two nodes whose leaf switch adds (SHARP), and one node (NVLS): an algorithm is tried on the first
// that it takes.
std::vector<Cluster> clusters() {
  return {make_cluster({.nodes = 2, .gpus = 4, .reduces = true}), make_cluster({.gpus = 8})};
}

// Calls check(row) for every algorithm, on eight ranks (send_recv: two). A row that no cluster
// takes would go unchecked, and fails.
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
    const GroupPlace place{.cluster = *taken, .gpus = gpus};
    const Mutated row{
        .algorithm = *algorithm,
        .the_case = {.op = algorithm->op(),
                     .ranks = static_cast<std::uint32_t>(gpus.size()),
                     .pieces = algorithm->pieces(place),
                     .bytes = kBytes,
                     .switches = static_cast<std::uint32_t>(algorithm->switches(place).size())},
        .messages = algorithm->messages(place, Bytes{kBytes})};
    ASSERT_FALSE(row.messages.empty());
    ASSERT_FALSE(row.wrong(row.messages));
    check(row);
  }
}

// A switch copies to all its members, so also back to the one who gave it what it copies.
bool returns_to_its_giver(const Mutated& row, const Message& message) {
  return message.from >= row.the_case.ranks &&
         std::ranges::any_of(message.after, [&](std::uint32_t before) {
           return row.messages[before].from == message.to;
         });
}

TEST(Mutation, EveryMessageIsNeeded) {
  for_every_row([](const Mutated& row) {
    for (std::uint32_t index = 0; index < row.messages.size(); ++index)
      EXPECT_TRUE(row.wrong(without(row.messages, index)) ||
                  returns_to_its_giver(row, row.messages[index]))
          << "without message " << index;
  });
}

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

// A message that adds may not replace, and one that replaces may not add, if it meets anything at
// all.
TEST(Mutation, AddingAndReplacingAreTold) {
  for_every_row([](const Mutated& row) {
    const bool adds = std::ranges::any_of(row.messages, &Message::reduce);
    if (!adds) return;
    Messages spoilt = row.messages;
    for (Message& message : spoilt)
      if (message.reduce) message.reduce = false;
    EXPECT_TRUE(row.wrong(spoilt));
  });
}

TEST(Mutation, EveryMessageGoesToItsReceiver) {
  for_every_row([](const Mutated& row) {
    for (std::uint32_t index = 0; index < row.messages.size(); ++index) {
      Messages spoilt = row.messages;
      Message& message = spoilt[index];
      message.to = (message.to + 1) % row.the_case.ranks;
      if (message.to == message.from) message.to = (message.to + 1) % row.the_case.ranks;
      if (message.to == row.messages[index].to) continue;  // two ranks have no other
      EXPECT_TRUE(row.wrong(spoilt)) << "message " << index;
    }
  });
}

TEST(Mutation, WhatIsPassedOnHasArrived) {
  for_every_row([](const Mutated& row) {
    for (std::uint32_t index = 0; index < row.messages.size(); ++index) {
      if (row.messages[index].after.empty()) continue;
      Messages spoilt = row.messages;
      spoilt[index].after.clear();
      EXPECT_TRUE(row.wrong(spoilt)) << "message " << index;
    }
  });
}

}  // namespace
}  // namespace trainyard
