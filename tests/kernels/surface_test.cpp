// Interpolation in logarithms and the filling of holes.
#include "kernels/surface.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace trainyard {
namespace {

Surface two_by_three() { return {{{64, 256}, {1, 4, 16}}, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}}; }

// Does the surface return its nodes exactly?
TEST(Surface, ReturnsNodesExactly) {
  const Surface s = two_by_three();
  EXPECT_DOUBLE_EQ(s.at(std::array<std::int64_t, 2>{64, 16}).value, 0.3);
  EXPECT_DOUBLE_EQ(s.at(std::array<std::int64_t, 2>{256, 1}).value, 0.4);
  EXPECT_EQ(s.node(std::array<std::int64_t, 2>{256, 4}), 4U);
  EXPECT_FALSE(s.node(std::array<std::int64_t, 2>{128, 4}).has_value());
}

// Is the value halfway in logarithms the mean?
TEST(Surface, HalfwayInLogarithmsIsTheMean) {
  const auto reading = two_by_three().at(std::array<std::int64_t, 2>{128, 2});
  EXPECT_NEAR(reading.value, (0.1 + 0.2 + 0.4 + 0.5) / 4, 1e-12);
  EXPECT_TRUE(reading.inside);
}

// Is a point outside the surface clamped to the border and marked?
TEST(Surface, OutsideIsTheBorderAndSaysSo) {
  const auto reading = two_by_three().at(std::array<std::int64_t, 2>{1024, 64});
  EXPECT_DOUBLE_EQ(reading.value, 0.6);
  EXPECT_FALSE(reading.inside);
  EXPECT_FALSE(two_by_three().at(std::array<std::int64_t, 2>{32, 4}).inside);
  EXPECT_TRUE(two_by_three().at(std::array<std::int64_t, 2>{256, 16}).inside);
}

// Does the surface stay within the range of its nodes?
TEST(Surface, StaysWithinItsNodes) {
  const Surface s = two_by_three();
  for (std::int64_t m = 1; m < 1000; m += 7)
    for (std::int64_t n = 1; n < 40; ++n) {
      const double value = s.at(std::array{m, n}).value;
      EXPECT_GE(value, 0.1 - 1e-12);
      EXPECT_LE(value, 0.6 + 1e-12);
    }
}

// Are known values kept, and planes continued?
TEST(FillHoles, KeepsWhatIsKnownAndContinuesPlanes) {
  // A function that is linear in the logarithms is harmonic, so inner holes are recovered exactly.
  const std::vector<std::vector<std::int64_t>> axes = {{1, 2, 8, 16}, {1, 4, 8, 64}};
  std::vector<std::optional<double>> values;
  std::vector<double> truth;
  for (const auto m : axes[0])
    for (const auto n : axes[1]) {
      truth.push_back(2 * std::log2(static_cast<double>(m)) - std::log2(static_cast<double>(n)));
      values.emplace_back(truth.back());
    }
  values[5].reset();
  values[10].reset();
  const auto filled = fill_holes(axes, values);
  for (std::size_t i = 0; i < truth.size(); ++i) EXPECT_NEAR(filled[i], truth[i], 1e-6) << i;
}

// Does an empty corner take the mean of its neighbours?
TEST(FillHoles, AnEmptyCornerTakesItsNeighbours) {
  const auto filled = fill_holes({{1, 2}, {1, 2}}, {std::nullopt, 3.0, 5.0, 9.0});
  EXPECT_NEAR(filled[0], 4.0, 1e-6);
  EXPECT_DOUBLE_EQ(filled[3], 9.0);
}

// Is one known value enough? The mean of equal neighbours is their value, so it fills the table.
TEST(FillHoles, OneKnownValueFillsTheTable) {
  const auto filled = fill_holes({{1, 2}, {1, 2}}, {std::nullopt, 7.0, std::nullopt, std::nullopt});
  ASSERT_EQ(filled.size(), 4U);
  for (const double value : filled) EXPECT_NEAR(value, 7.0, 1e-6);
}

// Do holes in a row lie on the line between their neighbours? From -3 to -1 in three steps: -7/3
// and -5/3. The first sweep turns both holes from the mean of the known values, 1, into -1.
TEST(FillHoles, HolesInARowLieOnALine) {
  const auto filled = fill_holes({{1, 2, 4, 8, 16}}, {-3.0, std::nullopt, std::nullopt, -1.0, 7.0});
  EXPECT_NEAR(filled[1], -7.0 / 3.0, 1e-6);
  EXPECT_NEAR(filled[2], -5.0 / 3.0, 1e-6);
}

}  // namespace
}  // namespace trainyard
