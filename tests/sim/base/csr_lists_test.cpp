// CSR lists: every value is in its own list, in the order of insertion.
#include "sim/base/csr_lists.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace trainyard {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Does each list keep the order of insertion?
TEST(CsrLists, KeepTheOrderOfInsertion) {
  const std::vector<std::pair<std::size_t, int>> told = {{3, 1}, {0, 2}, {3, 3}, {1, 4}, {3, 5}};
  const CsrLists<int> lists(5, [&](const auto& put) {
    for (const auto& [list, value] : told) put(list, value);
  });
  ASSERT_EQ(lists.size(), 5U);
  EXPECT_THAT(lists[0], ElementsAre(2));
  EXPECT_THAT(lists[1], ElementsAre(4));
  EXPECT_THAT(lists[2], IsEmpty());
  EXPECT_THAT(lists[3], ElementsAre(1, 3, 5));
  EXPECT_THAT(lists[4], IsEmpty());
}

// Can the lists be empty?
TEST(CsrLists, MayBeEmpty) {
  EXPECT_EQ(CsrLists<int>().size(), 0U);
  EXPECT_EQ(CsrLists<int>(0, [](const auto&) {}).size(), 0U);
}

}  // namespace
}  // namespace trainyard
