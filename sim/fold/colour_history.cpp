#include "sim/fold/colour_history.hpp"

#include <algorithm>

namespace trainyard {

ColourHistory::ColourHistory(Refinement refinement)
    : refinement_(std::move(refinement)), changes_(refinement_.first.size()) {
  for (const Recolouring& change : refinement_.recolourings)
    changes_[change.vertex].emplace_back(change.round, change.colour);
}

std::uint32_t ColourHistory::colour(std::uint32_t vertex, std::uint32_t round) const {
  std::uint32_t colour = refinement_.first[vertex];
  for (const auto& [when, name] : changes_[vertex]) {
    if (when > round) break;
    colour = name;
  }
  return colour;
}

std::uint32_t ColourHistory::parting(std::uint32_t a, std::uint32_t b) const {
  if (refinement_.first[a] != refinement_.first[b]) return 0;
  std::uint32_t found = kNone;
  for (const std::uint32_t vertex : {a, b}) {
    for (const auto& [round, ignored] : changes_[vertex]) {
      if (colour(a, round) != colour(b, round)) found = std::min(found, round);
    }
  }
  return found;
}

}  // namespace trainyard
