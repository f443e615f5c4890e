#include "kernels/surface.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

std::size_t node_count(const std::vector<std::vector<std::int64_t>>& axes) {
  return std::accumulate(axes.begin(), axes.end(), std::size_t{1},
                         [](std::size_t n, const auto& axis) { return n * axis.size(); });
}

// Position of a coordinate on an axis: between node `low` and the next, at `share` of their
// distance in logarithms.
struct GridPlace {
  std::size_t low = 0;
  double share = 0.0;
  bool inside = true;
};

// A coordinate outside the axis is moved to its border.
GridPlace place_on(const std::vector<std::int64_t>& axis, std::int64_t x) {
  if (x <= axis.front() || axis.size() == 1) return {0, 0.0, x == axis.front()};
  if (x >= axis.back()) return {axis.size() - 2, 1.0, x == axis.back()};
  const auto above = std::upper_bound(axis.begin(), axis.end(), x);
  const auto low = static_cast<std::size_t>(above - axis.begin()) - 1;
  const double from = std::log2(static_cast<double>(axis[low]));
  const double to = std::log2(static_cast<double>(axis[low + 1]));
  return {low, (std::log2(static_cast<double>(x)) - from) / (to - from), true};
}

}  // namespace

Surface::Surface(std::vector<std::vector<std::int64_t>> axes, std::vector<double> values)
    : axes_(std::move(axes)), values_(std::move(values)) {
  TY_CHECK(values_.size() == node_count(axes_), values_.size(), node_count(axes_));
  for (const auto& axis : axes_) {
    TY_CHECK(!axis.empty() && axis.front() > 0);
    TY_CHECK(std::adjacent_find(axis.begin(), axis.end(), std::greater_equal<>{}) == axis.end());
  }
}

Surface::Reading Surface::at(std::span<const std::int64_t> point) const {
  TY_CHECK(point.size() == axes_.size(), point.size(), axes_.size());
  std::vector<GridPlace> places;
  Reading reading;
  for (std::size_t d = 0; d < point.size(); ++d) {
    places.push_back(place_on(axes_[d], point[d]));
    reading.inside = reading.inside && places.back().inside;
  }
  // Sums the 2^d corners of the cell, each weighted by the product of its shares.
  const std::size_t corners = std::size_t{1} << point.size();
  for (std::size_t corner = 0; corner < corners; ++corner) {
    double weight = 1.0;
    std::size_t index = 0;
    for (std::size_t d = 0; d < point.size(); ++d) {
      const bool high = ((corner >> d) & 1U) != 0;
      weight *= high ? places[d].share : 1.0 - places[d].share;
      index =
          index * axes_[d].size() + std::min(places[d].low + (high ? 1 : 0), axes_[d].size() - 1);
    }
    if (weight > 0.0) reading.value += weight * values_[index];
  }
  return reading;
}

std::optional<std::size_t> Surface::node(std::span<const std::int64_t> point) const {
  TY_CHECK(point.size() == axes_.size(), point.size(), axes_.size());
  std::size_t index = 0;
  for (std::size_t d = 0; d < point.size(); ++d) {
    const auto found = std::lower_bound(axes_[d].begin(), axes_[d].end(), point[d]);
    if (found == axes_[d].end() || *found != point[d]) return std::nullopt;
    index = index * axes_[d].size() + static_cast<std::size_t>(found - axes_[d].begin());
  }
  return index;
}

namespace {

// A neighbour of a node along one axis, with its weight.
struct Neighbour {
  std::size_t index = 0;
  double weight = 0.0;
};

// Weights are the inverse distances in log2, so that near nodes count more.
std::vector<Neighbour> neighbours(const std::vector<std::vector<std::int64_t>>& axes,
                                  std::size_t index) {
  std::vector<Neighbour> found;
  std::size_t stride = 1;
  std::size_t rest = index;
  for (std::size_t d = axes.size(); d-- > 0;) {
    const auto& axis = axes[d];
    const std::size_t at = rest % axis.size();
    rest /= axis.size();
    const auto distance = [&](std::size_t a, std::size_t b) {
      return std::log2(static_cast<double>(axis[b]) / static_cast<double>(axis[a]));
    };
    if (at > 0) found.push_back({index - stride, 1.0 / distance(at - 1, at)});
    if (at + 1 < axis.size()) found.push_back({index + stride, 1.0 / distance(at, at + 1)});
    stride *= axis.size();
  }
  return found;
}

}  // namespace

// Each hole gets the weighted mean of its neighbours (a discrete Laplace equation). Known values do
// not change, and the holes start from the mean of the known values.
std::vector<double> fill_holes(const std::vector<std::vector<std::int64_t>>& axes,
                               const std::vector<std::optional<double>>& values) {
  TY_CHECK(values.size() == node_count(axes), values.size(), node_count(axes));
  double sum = 0.0;
  double known = 0.0;
  for (const auto& value : values)
    if (value) sum += *value, known += 1.0;
  TY_CHECK(known > 0.0);
  std::vector<double> filled(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) filled[i] = values[i].value_or(sum / known);
  // Gauss-Seidel iteration: the equations are diagonally dominant, so it converges, and tables are
  // small.
  constexpr int sweeps_max = 2000;
  constexpr double still = 1e-9;
  for (int sweep = 0; sweep < sweeps_max; ++sweep) {
    double change = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i]) continue;
      double weight = 0.0;
      double total = 0.0;
      for (const auto& n : neighbours(axes, i))
        total += n.weight * filled[n.index], weight += n.weight;
      if (weight <= 0.0) continue;
      change = std::max(change, std::abs(total / weight - filled[i]));
      filled[i] = total / weight;
    }
    if (change < still) break;
  }
  return filled;
}

}  // namespace trainyard
