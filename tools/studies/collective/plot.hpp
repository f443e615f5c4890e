// Bus bandwidth over size in characters, both axes logarithmic, one letter for each algorithm.
//
//   fmt::print("{}", plot_text(study, {.columns = 64, .lines = 20}));
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/studies/collective/study.hpp"

namespace trainyard {

struct PlotArea {
  std::size_t columns = 64;
  std::size_t lines = 18;
};

// The first letter of its name that is still free, else any that is; by algorithm.
[[nodiscard]] std::string plot_letters(const CollectiveStudy& study);

// '*' where several meet. Empty where no algorithm has rows.
[[nodiscard]] std::string plot_text(const CollectiveStudy& study, const PlotArea& area);

}  // namespace trainyard
