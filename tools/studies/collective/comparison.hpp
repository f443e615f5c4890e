// Which algorithm is quickest at which size, and where that changes.
//
//   std::vector<Winner> best = winners(study);
//   for (const Crossover& at : crossovers(study)) say(at.from, at.to, at.bytes);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tools/studies/collective/study.hpp"

namespace trainyard {

struct Winner {
  std::int64_t bytes = 0;
  std::size_t algorithm = 0;          // index into CollectiveStudy::algorithms
  std::optional<std::size_t> second;  // the next best; nothing where there is no other
};
// By size. Of algorithms equal to 1e-9 the first wins. Empty where all were refused.
[[nodiscard]] std::vector<Winner> winners(const CollectiveStudy& study);

// The winner at `above` is another than at `below`, the size before it.
struct Crossover {
  std::size_t from = 0;
  std::size_t to = 0;
  std::int64_t below = 0;
  std::int64_t above = 0;
  // Where the straight lines through their two times meet. Exact for algorithms whose time is
  // latency + size / rate, and a guess within [below, above] for one that changes between them.
  double bytes = 0.0;
};
[[nodiscard]] std::vector<Crossover> crossovers(const CollectiveStudy& study);

}  // namespace trainyard
