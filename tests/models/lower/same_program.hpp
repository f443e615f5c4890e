// Compares programs that must be the same, however their operations are written.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "sim/workload/workload.hpp"

namespace trainyard::test {

// The fields of an operation, except for the positions of its dependencies and effects.
inline auto words(const Operation& op) {
  return std::tuple(op.kind, op.stream, op.work, op.part, op.name, op.slot, op.payload,
                    op.microbatch, op.layer);
}

inline bool same_effect(const MemoryEffect& a, const MemoryEffect& b) {
  return a.category == b.category && a.at_end == b.at_end && a.bytes == b.bytes;
}

inline void expect_same(const Program& once, const Program& out) {
  ASSERT_EQ(once.operations.size(), out.operations.size());
  EXPECT_EQ(once.kernels, out.kernels);
  for (OpIndex op = 0; op < out.operations.size(); ++op) {
    ASSERT_EQ(words(once.operations[op]), words(out.operations[op])) << op;
    ASSERT_TRUE(std::ranges::equal(once.dependencies_of(op), out.dependencies_of(op))) << op;
    ASSERT_TRUE(std::ranges::equal(once.effects_of(op), out.effects_of(op), same_effect)) << op;
  }
}

}  // namespace trainyard::test
