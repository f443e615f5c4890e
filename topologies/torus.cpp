#include "topologies/torus.hpp"

#include <algorithm>
#include <numeric>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// Factors from `least` upwards, none smaller than the one before it.
std::vector<std::uint32_t> least_sum(std::uint32_t places, std::uint32_t count,
                                     std::uint32_t least) {
  if (count == 1) return {places};
  std::vector<std::uint32_t> best;
  for (std::uint32_t factor = least; std::uint64_t{factor} * factor <= places || factor == 1;
       ++factor) {
    if (places % factor != 0) continue;
    std::vector<std::uint32_t> rest = least_sum(places / factor, count - 1, factor);
    if (rest.empty()) continue;
    rest.push_back(factor);
    const auto sum = [](const auto& all) {
      return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
    };
    if (best.empty() || sum(rest) < sum(best)) best = std::move(rest);
  }
  return best;
}

}  // namespace

std::vector<TorusWire> torus_wires(std::span<const std::uint32_t> dims) {
  std::vector<TorusWire> wires;
  const auto places = static_cast<std::uint32_t>(torus_places(dims));
  for (std::uint32_t place = 0; place < places; ++place) {
    std::uint32_t stride = 1;
    for (const std::uint32_t size : dims) {
      const std::uint32_t at = place / stride % size;
      const std::uint32_t next = place - at * stride + (at + 1) % size * stride;
      // Of a pair only the first draws the wire.
      if (size > 2 || (size == 2 && at == 0)) {
        wires.push_back({.from = place, .to = next, .times = size == 2 ? 2U : 1U});
      }
      stride *= size;
    }
  }
  return wires;
}

std::vector<std::uint32_t> balanced_dims(std::uint32_t places, std::uint32_t count) {
  TY_CHECK(places > 0 && count > 0, places, count);
  std::vector<std::uint32_t> dims = least_sum(places, count, 1);
  std::sort(dims.begin(), dims.end(), std::greater<>{});
  return dims;
}

std::uint64_t torus_places(std::span<const std::uint32_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), std::uint64_t{1}, std::multiplies<>{});
}

}  // namespace trainyard
