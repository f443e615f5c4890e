// The numbers of collectives in Chakra traces, and files that are cut off.
#include <gtest/gtest.h>

#include "sim/base/error.hpp"
#include "sim/chakra/trace_file.hpp"

namespace trainyard::chakra {
namespace {

// Does each of Chakra's ten numbers have its operation and its word, and no other number one?
TEST(CollectiveNumbers, AreThoseOfChakra) {
  EXPECT_EQ(collective_of(0), CollectiveOp::AllReduce);
  EXPECT_EQ(collective_words(0), "ALL_REDUCE");
  EXPECT_EQ(collective_of(3), std::nullopt);  // a gather, which no rank here makes
  EXPECT_EQ(collective_words(3), "GATHER");
  EXPECT_EQ(collective_of(9), CollectiveOp::AllReduce);
  EXPECT_EQ(collective_words(9), "BARRIER");
  for (const std::int64_t number : {-1, 10})
    EXPECT_EQ(collective_of(number), std::nullopt) << number;
  EXPECT_EQ(collective_words(-1), "type -1");
  EXPECT_EQ(collective_words(10), "type 10");
}

// Is an operation written with the first number that stands for it?
TEST(CollectiveNumbers, AnOperationHasTheFirstThatStandsForIt) {
  EXPECT_EQ(collective_number(CollectiveOp::AllReduce), 0);
  EXPECT_EQ(collective_number(CollectiveOp::ReduceScatter), 7);
  for (const CollectiveOp op : {CollectiveOp::Reduce, CollectiveOp::AllGather,
                                CollectiveOp::Broadcast, CollectiveOp::AllToAll})
    EXPECT_EQ(collective_of(collective_number(op)), op);
}

// Is a file that is cut off refused at every byte but those that end a message?
TEST(TraceFile, ThatIsCutOffIsRefused) {
  RankTrace trace;
  trace.nodes.resize(2);
  trace.nodes[1].name =
      "a name of more than a hundred and twenty-eight letters, so that the length of "
      "its message takes two bytes, of which the second one may be missing";
  const std::string bytes = to_bytes(trace);
  std::size_t read = 0;
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    try {
      (void)from_bytes(std::string_view(bytes).substr(0, size), "cut.et");
      ++read;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("cut.et: holds no message"), std::string::npos);
    }
  }
  EXPECT_EQ(read, 3U);  // the metadata, one node, both nodes
}

}  // namespace
}  // namespace trainyard::chakra
