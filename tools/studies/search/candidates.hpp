// Layouts on their way through a search: bounded, then simulated, then put in order.
//
//   for (const Candidate& candidate : bounded(question, scenario, layouts)) ...
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/studies/search/search.hpp"

namespace trainyard {

struct Candidate {
  const Layout* layout = nullptr;
  LayoutBound bound;
  std::string refusal;   // why it is none; empty for all others
  bool reached = false;  // false: bounding was ended before, and nothing is known of it
};

// Each layout with its bounds, or why it has none. The cluster of a layout is that of its family;
// one bounder in each worker process serves all that share it. `end` is asked as
// ProcessWork::end.
[[nodiscard]] std::vector<Candidate> bounded(const SearchQuestion& question,
                                             const Scenario& scenario,
                                             const std::vector<const Layout*>& layouts,
                                             const std::function<bool()>& end = {});

// Their rows, in the same order (batch/row.hpp); those that the journal has are not run again. Null
// for those that `end` left without one.
[[nodiscard]] std::vector<nlohmann::ordered_json> simulated(
    const SearchQuestion& question, const std::vector<const Layout*>& layouts,
    const std::function<bool()>& end = {});

// By time, then by memory, then by name: the same order whatever came first.
void sort_by_time(std::vector<FoundLayout>& layouts);

}  // namespace trainyard
