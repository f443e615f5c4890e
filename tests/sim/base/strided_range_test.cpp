// Numbers stored as arithmetic series: they read back as they were inserted, in any order.
#include "sim/base/strided_range.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sim/base/random.hpp"

namespace trainyard {
namespace {

// Is a range extended by numbers that continue it?
TEST(StridedRange, IsExtendedByNumbersThatContinueIt) {
  StridedRange range{.first = 5};
  EXPECT_TRUE(range.extend({.first = 28}));  // a single number continues a range with any step
  EXPECT_TRUE(range.extend({.first = 51, .step = 23, .count = 3}));
  EXPECT_FALSE(range.extend({.first = 121}));
  EXPECT_FALSE(range.extend({.first = 120, .step = 1, .count = 2}));
  EXPECT_EQ(range.count, 5U);
  EXPECT_EQ(range.last(), 97U);
}

// Can a range go downwards?
TEST(StridedRange, MayDescend) {
  StridedRange range{.first = 9};
  EXPECT_TRUE(range.extend({.first = 7}));
  EXPECT_TRUE(range.extend({.first = 5}));
  EXPECT_EQ(range[1], 7U);
  EXPECT_EQ(range.last(), 5U);
}

// Is a regular list stored as one piece?
TEST(StridedList, StoresARegularListInOnePiece) {
  StridedList<int> list;
  list.append({.first = 5, .step = 23, .count = 64}, 0);
  list.append({.first = 1477}, 0);
  EXPECT_EQ(list.pieces().size(), 1U);
  EXPECT_EQ(list[63], 1454U);
  EXPECT_EQ(list[64], 1477U);
  list.append({.first = 1500}, 1);
  EXPECT_EQ(list.pieces().size(), 2U);
}

// Does a list read back what was appended? The runs of numbers go up, down or stay, and some have
// one number. Each index must give the inserted number.
TEST(StridedList, ReadsBackTheInsertedNumbers) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    const auto draw = [&](std::uint32_t below) {
      return static_cast<std::uint32_t>(random.word() % below);
    };
    StridedList<std::uint32_t> list;
    std::vector<std::uint32_t> numbers;
    std::vector<std::uint32_t> tags;
    for (std::uint32_t stretch = 0; stretch < 40; ++stretch) {
      const StridedRange range{.first = draw(100), .step = draw(5) - 2U, .count = 1 + draw(30)};
      const std::uint32_t tag = draw(2);
      for (std::uint32_t i = 0; i < range.count; ++i) {
        numbers.push_back(range[i]);
        tags.push_back(tag);
        if (seed % 2 == 0) list.append({.first = range[i]}, tag);
      }
      if (seed % 2 == 1) list.append(range, tag);
    }
    ASSERT_EQ(list.size(), numbers.size());
    for (std::uint32_t place = 0; place < numbers.size(); ++place) {
      ASSERT_EQ(list[place], numbers[place]) << seed;
      ASSERT_EQ(list.piece_at(place).tag, tags[place]) << seed;
    }
  }
}

// Does each group keep the order of insertion?
TEST(StridedGroups, KeepTheOrderOfInsertion) {
  Random random(3);
  StridedGroups<int> groups(7);
  std::vector<std::vector<std::uint32_t>> wanted(7);
  for (std::uint32_t number = 0; number < 500; ++number) {
    const std::size_t group = random.word() % 6;
    groups.append(group, {.first = number}, static_cast<int>(number / 100));
    wanted[group].push_back(number);
  }
  for (std::size_t group = 0; group < groups.size(); ++group) {
    std::vector<std::uint32_t> told;
    groups.for_each(group, [&](const StridedRange& range, int tag) {
      for (std::uint32_t i = 0; i < range.count; ++i) {
        told.push_back(range[i]);
        EXPECT_EQ(static_cast<int>(range[i] / 100), tag);
      }
    });
    EXPECT_EQ(told, wanted[group]);
  }
}

}  // namespace
}  // namespace trainyard
