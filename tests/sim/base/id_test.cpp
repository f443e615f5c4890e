#include "sim/base/id.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <type_traits>
#include <unordered_set>
#include <vector>

namespace trainyard {
namespace {

using LampId = Id<struct LampTag>;
using WireId = Id<struct WireTag>;

constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

// An id does not convert to another kind of id.
static_assert(!std::is_convertible_v<LampId, WireId>);
static_assert(!std::is_assignable_v<LampId&, WireId>);
static_assert(!std::is_convertible_v<std::vector<LampId>, std::vector<WireId>>);
// A number becomes an id only if it is a constant, and only if it is an int.
static_assert(!std::is_convertible_v<std::size_t, LampId>);
static_assert(!std::is_convertible_v<std::uint64_t, LampId>);
static_assert(!std::is_convertible_v<double, LampId>);
static_assert(!std::is_convertible_v<bool, LampId>);
static_assert(std::is_constructible_v<LampId, std::uint32_t>);
// An id converts to its number.
static_assert(std::is_convertible_v<LampId, std::uint32_t>);
// An id plus a number is an id of the same kind; a distance is a number.
static_assert(std::same_as<decltype(LampId{} + 1), LampId>);
static_assert(std::same_as<decltype(LampId{} + 1U), LampId>);
static_assert(std::same_as<decltype(LampId{} - LampId{}), std::uint32_t>);
static_assert(std::same_as<decltype(LampId{} + WireId{}), std::uint32_t>);
// An id has the cost of its number.
static_assert(sizeof(LampId) == sizeof(std::uint32_t) && std::is_trivially_copyable_v<LampId>);

struct Joint {
  LampId lamp = 0;
  WireId wire = kNobody;
  auto operator<=>(const Joint&) const = default;
};

// Is an id made from constants without a cast?
TEST(Id, ConvertsConstantsWithoutACast) {
  constexpr LampId none;
  static_assert(none == 0);
  const std::vector<LampId> lamps{0, 1, 7};
  EXPECT_EQ(lamps[2], 7U);
  EXPECT_EQ(Joint{}.wire, kNobody);
  EXPECT_EQ((Joint{.lamp = 3, .wire = 4}), (Joint{3, 4}));
}

// Is an id made from other numbers by an explicit conversion?
TEST(Id, ConvertsOtherNumbersExplicitly) {
  for (std::uint32_t number = 0; number < 3; ++number) EXPECT_EQ(LampId{number}, number);
}

// Can an id count and index?
TEST(Id, CountsAndIndexes) {
  const std::vector<int> watts{40, 60, 100};
  int sum = 0;
  for (LampId lamp = 0; lamp < watts.size(); ++lamp) sum += watts[lamp];
  EXPECT_EQ(sum, 200);
  LampId lamp = 1;
  lamp += 2;
  EXPECT_EQ(lamp + 4, 7U);
}

// Does an id compare like its number?
TEST(Id, ComparesAsItsNumber) {
  std::vector<LampId> lamps{5, 1, 3};
  std::ranges::sort(lamps);
  EXPECT_EQ(lamps, (std::vector<LampId>{1, 3, 5}));
  EXPECT_LT((Joint{1, 9}), (Joint{2, 0}));
  EXPECT_LT((Joint{1, 0}), (Joint{1, 9}));
}

// Can an id be a key and be printed?
TEST(Id, IsAKeyAndPrints) {
  std::map<LampId, int> by_lamp;
  by_lamp[LampId{2}] = 5;
  EXPECT_TRUE(by_lamp.contains(2));
  EXPECT_TRUE((std::unordered_set<LampId>{1, 2}.contains(LampId{2})));
  EXPECT_EQ(fmt::format("{} {:>3}", LampId{12}, LampId{3}), "12   3");
}

// Does an id have the limits of its number? Without a specialisation the limits would be 0.
TEST(Id, HasTheLimitsOfItsNumber) {
  EXPECT_EQ(std::numeric_limits<LampId>::max(), kNobody);
  EXPECT_EQ(std::numeric_limits<LampId>::min(), 0U);
}

}  // namespace
}  // namespace trainyard
