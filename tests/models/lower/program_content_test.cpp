// Effects on memory while blocks of a program are recorded.
#include "models/lower/program_content.hpp"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

// Are the effects of a block's own operations removed with it, and only these? While the block of
// operation 2 is written, a buffer of operation 0 is freed at its last use, operation 1. That
// effect is needed whether or not the block turns out to be an instance of an earlier one.
TEST(MemoryEffects, ADroppedBlockKeepsItsEffectsOnEarlierOperations) {
  MemoryEffects memory;
  memory.allocate(0, Category::Workspace, 64);
  const std::size_t begin = memory.size();
  memory.allocate(2, Category::Activations, 32);
  memory.release(1, Category::Workspace, 64);
  memory.release(2, Category::Activations, 32);
  EXPECT_FALSE(memory.begin_with(begin, 2)) << "operation 1 is not of the block";
  memory.record_block_effects(0, 2, begin);
  EXPECT_FALSE(memory.all_of_blocks());
  EXPECT_EQ(memory.size(), 4U);
  memory.drop(0);
  EXPECT_EQ(memory.size(), 2U);
  EXPECT_TRUE(memory.begin_with(0, 0));
  EXPECT_TRUE(memory.begin_with(1, 1)) << "the second effect left is that of operation 1";
}

}  // namespace
}  // namespace trainyard
