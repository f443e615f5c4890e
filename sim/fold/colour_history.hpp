// Which colour every vertex had after every round of a refinement, and when two of them parted.
//
//   const ColourHistory history(refine_with_history(graph, colours));
//   history.parting(3, 5);   // 2: after round 1 they were of one colour, after round 2 not
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/base/refinement.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

class ColourHistory {
 public:
  explicit ColourHistory(Refinement refinement);

  [[nodiscard]] std::uint32_t colour(std::uint32_t vertex, std::uint32_t round) const;

  // The first round after which the two are not of one colour; kNone: they never part.
  [[nodiscard]] std::uint32_t parting(std::uint32_t a, std::uint32_t b) const;

 private:
  Refinement refinement_;
  // By vertex: rounds and the colours they brought.
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> changes_;
};

}  // namespace trainyard
