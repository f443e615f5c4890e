// The layouts of a search and their states: bounded, simulated, sorted.
//
//    for (const Candidate& candidate : bounded(question, scenario, layouts))
//      if (candidate.reached && candidate.refusal.empty()) use(candidate.bound.step_time_s);
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/studies/search/search.hpp"

namespace trainyard {

struct Candidate {
  const Layout* layout = nullptr;
  LayoutBound bound;
  std::string refusal;   // why it is no layout; empty for all others
  bool reached = false;  // false: bounding was ended before it, and nothing is known about it
};

// Each layout with its bounds, or with the reason why it has none. The cluster of a layout is that
// of its family, so one bounder in each worker process serves all layouts. `end` is polled as
// ProcessWork::end.
[[nodiscard]] std::vector<Candidate> bounded(const SearchQuestion& question,
                                             const Scenario& scenario,
                                             const std::vector<const Layout*>& layouts,
                                             const std::function<bool()>& end = {});

// The rows of the layouts, in the same order (batch/row.hpp). Layouts with a row in the journal are
// not simulated once more. The row is null for layouts that `end` left without one.
[[nodiscard]] std::vector<nlohmann::ordered_json> simulated(
    const SearchQuestion& question, const std::vector<const Layout*>& layouts,
    const std::function<bool()>& end = {});

// Sorts by time, then by memory, then by name, so the order does not depend on the order of the
// input.
void sort_by_time(std::vector<FoundLayout>& layouts);

}  // namespace trainyard
