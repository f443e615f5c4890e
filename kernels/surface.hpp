// A table over a grid with logarithmic axes, interpolated between its nodes. It stores measured
// efficiencies.
//
//    Surface s({{64, 128, 256}, {64, 4096}}, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6});
//    s.at({{128, 512}}).value;    // between 0.3 and 0.4, half way in log2(512/64) of log2(4096/64)
//    s.at({{512, 64}}).inside;    // false: beyond 256, the value at the border is returned
//
// Values vary smoothly with the logarithm of a dimension, so the interpolation is multilinear in
// the logarithms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace trainyard {

class Surface {
 public:
  struct Reading {
    double value = 0.0;
    bool inside = true;  // false: a coordinate was outside the grid and was moved to its border
  };

  Surface() = default;
  // REQUIRES: ascending positive nodes on every axis; values in row-major order, last axis fastest.
  Surface(std::vector<std::vector<std::int64_t>> axes, std::vector<double> values);

  [[nodiscard]] Reading at(std::span<const std::int64_t> point) const;
  // Index of the node, if the point is exactly a node.
  [[nodiscard]] std::optional<std::size_t> node(std::span<const std::int64_t> point) const;

  [[nodiscard]] const std::vector<std::vector<std::int64_t>>& axes() const { return axes_; }
  [[nodiscard]] const std::vector<double>& values() const { return values_; }
  [[nodiscard]] bool empty() const { return values_.empty(); }

 private:
  std::vector<std::vector<std::int64_t>> axes_;
  std::vector<double> values_;
};

// Fills the holes of a table: each becomes the mean of its neighbours along the axes, weighted by
// the inverse of their distance in logarithms (the discrete harmonic function through the known
// values). Known values do not change. REQUIRES: at least one known value.
[[nodiscard]] std::vector<double> fill_holes(const std::vector<std::vector<std::int64_t>>& axes,
                                             const std::vector<std::optional<double>>& values);

}  // namespace trainyard
