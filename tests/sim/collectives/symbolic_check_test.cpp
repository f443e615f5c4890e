#include "sim/collectives/symbolic_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test_clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;
using ::testing::HasSubstr;

constexpr SymbolicCase kAllReduce{
    .op = CollectiveOp::AllReduce, .ranks = 3, .pieces = 3, .bytes = 300.0};

std::vector<Message> ring_of_three() {
  const Cluster cluster = star(3);
  const std::vector<std::uint32_t> gpus = gpus_of(3);
  return find_algorithm(CollectiveOp::AllReduce, "ring")
      ->messages({.cluster = cluster, .gpus = gpus}, Bytes{300.0});
}

std::string fault_of(const std::vector<Message>& messages) {
  return symbolic_fault(kAllReduce, messages).value_or("");
}

// Is a ring accepted?
TEST(SymbolicCheck, AcceptsARing) { EXPECT_EQ(fault_of(ring_of_three()), ""); }

// Does a missing dependency lose a contribution?
TEST(SymbolicCheck, AMissingDependencyLosesAContribution) {
  std::vector<Message> messages = ring_of_three();
  for (Message& message : messages)
    if (message.step == 1) message.after.clear();
  EXPECT_THAT(fault_of(messages), HasSubstr("ends with the wrong contributions"));
}

// Is a missing message detected?
TEST(SymbolicCheck, AMissingMessageIsDetected) {
  std::vector<Message> messages = ring_of_three();
  messages.pop_back();
  EXPECT_THAT(fault_of(messages), HasSubstr("ends with the wrong contributions"));
}

// Is a contribution refused that is added twice?
TEST(SymbolicCheck, AContributionIsNotAddedTwice) {
  std::vector<Message> messages = ring_of_three();
  messages.back().reduce = true;
  EXPECT_THAT(fault_of(messages), HasSubstr("a second time"));
}

// Must the bytes of a message match its pieces?
TEST(SymbolicCheck, BytesMustMatchThePieces) {
  std::vector<Message> messages = ring_of_three();
  messages[4].bytes = 99.0;
  EXPECT_EQ(fault_of(messages), "message 4 has 99 bytes, its pieces 100");
}

// May a sender wait only for messages that it receives?
TEST(SymbolicCheck, ASenderWaitsOnlyForWhatItReceives) {
  std::vector<Message> messages = ring_of_three();
  messages[4].after = {0, 1, 2};
  EXPECT_THAT(fault_of(messages), HasSubstr("which its sender does not receive"));
}

// May a message not wait for later messages or its own step?
TEST(SymbolicCheck, NothingWaitsForLaterMessagesOrItsOwnStep) {
  std::vector<Message> messages = ring_of_three();
  messages[0].after = {5};
  EXPECT_EQ(fault_of(messages), "message 0 waits for the later message 5");
  messages = ring_of_three();
  messages[4].step = 0;
  EXPECT_THAT(fault_of(messages), HasSubstr("message 4 of step 0 waits for"));
}

// May a rank send only what it holds?
TEST(SymbolicCheck, RanksSendOnlyWhatTheyHold) {
  const SymbolicCase broadcast{
      .op = CollectiveOp::Broadcast, .ranks = 3, .pieces = 1, .bytes = 8.0};
  const std::vector<Message> messages{
      {.from = 1, .to = 2, .bytes = 8.0, .piece_begin = 0, .piece_end = 1}};
  EXPECT_EQ(symbolic_fault(broadcast, messages),
            "message 0 carries piece 0, which rank 1 does not hold");
}

// Is replacing a piece while another one arrives a race?
TEST(SymbolicCheck, ReplacingWhileAnotherArrivesIsARace) {
  const SymbolicCase broadcast{
      .op = CollectiveOp::Broadcast, .ranks = 2, .pieces = 1, .bytes = 8.0};
  const Message message{.from = 0, .to = 1, .bytes = 8.0, .piece_begin = 0, .piece_end = 1};
  EXPECT_EQ(symbolic_fault(broadcast, std::vector<Message>{message, message}),
            "message 1 replaces piece 0 while message 0 arrives");
}

}  // namespace
}  // namespace trainyard
