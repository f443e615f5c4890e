// The numbers of collectives in Chakra traces.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace trainyard::chakra
