// Do flows come out in order of start however they went in?
#include "sim/engine/flow_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>

namespace trainyard {
namespace {

auto key(const FlowSpan& flow) { return std::tuple(flow.start_s, flow.flow_class, flow.end_s); }

void expect_ordered(const std::vector<FlowSpan>& flows) {
  std::vector<FlowSpan> expected = flows;
  std::ranges::sort(expected, [](const auto& a, const auto& b) { return key(a) < key(b); });
  const std::vector<FlowSpan> ordered = in_order_of_start(flows);
  ASSERT_EQ(ordered.size(), expected.size());
  for (std::size_t i = 0; i < ordered.size(); ++i)
    ASSERT_EQ(key(ordered[i]), key(expected[i])) << "place " << i << " of " << flows.size();
}

TEST(FlowOrder, HoldsForNoneOneAndThoseOfOneInstant) {
  expect_ordered({});
  expect_ordered({{0, 1.0, 2.0}});
  std::vector<FlowSpan> together;
  for (std::uint32_t flow = 100; flow-- > 0;) together.push_back({flow % 7, 3.0, 4.0 + flow});
  expect_ordered(together);
}

// Spread evenly, crowded at one end, and with dates that come back.
TEST(FlowOrder, HoldsForRandomFlows) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> share(0.0, 1.0);
  for (int round = 0; round < 200; ++round) {
    std::vector<FlowSpan> flows(random() % 500);
    const int power = 1 + round % 9;
    const double grid = round % 2 == 0 ? 0.01 : 1e-9;
    for (FlowSpan& flow : flows) {
      const double start = 1e-3 + std::floor(std::pow(share(random), power) / grid) * grid;
      flow = {static_cast<std::uint32_t>(random() % 5), start, start + share(random)};
    }
    expect_ordered(flows);
  }
}

}  // namespace
}  // namespace trainyard
