// Who sees a change of a list that others have copied?
#include "sim/base/shared_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SharedList, CopiesShareUntilOneIsChanged) {
  SharedList<int> list{1, 2, 3};
  const SharedList<int> copy = list;
  EXPECT_TRUE(list.shares_with(copy));
  EXPECT_EQ(list.data(), copy.data());
  list.edit()[0] = 7;
  list.push_back(4);
  EXPECT_FALSE(list.shares_with(copy));
  EXPECT_THAT(list, ElementsAre(7, 2, 3, 4));
  EXPECT_THAT(copy, ElementsAre(1, 2, 3));
}

TEST(SharedList, EqualListsAreNotTheSame) {
  const SharedList<int> one{1, 2};
  const SharedList<int> other{1, 2};
  EXPECT_FALSE(one.shares_with(other));
  EXPECT_FALSE(SharedList<int>().shares_with(SharedList<int>()));
}

TEST(SharedList, AnEmptyListCanBeReadAndGrown) {
  SharedList<int> list;
  EXPECT_THAT(list, IsEmpty());
  EXPECT_EQ(list.begin(), list.end());
  list.append(std::vector<int>{5, 6});
  EXPECT_THAT(list, ElementsAre(5, 6));
  EXPECT_EQ(list.front(), 5);
  EXPECT_EQ(list.back(), 6);
}

}  // namespace
}  // namespace trainyard
