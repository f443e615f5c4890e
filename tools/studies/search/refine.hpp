// The best layouts of a search once more, with other placements of their ranks and other algorithms
// of their collectives: what costs little to change once the sizes are chosen.
//
//   RefinedLayouts refined = refine(question, scenario, result.best);
//   refined.best.front();   // quicker than the layout it came from
//
// This second stage is no search of all combinations: of each layout, one change at a time (the
// other order of stages and replicas over the nodes; another algorithm for the collectives of one
// kind of group, where the step waits for them 1 % of its time or more), then the quickest changes
// of all kinds together. Algorithms by name move at the links' full rates and NCCL at the pace
// measured of it, so one counts only where it is also quicker than the plain one by name (a ring,
// or pairwise). A change whose proven least time (bounds.hpp) gains nothing is not
// simulated.
#pragma once

#include <functional>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "tools/studies/search/search.hpp"

namespace trainyard {

// `best`: fitting layouts of the search. `end`: true when what is known so far is the answer.
[[nodiscard]] RefinedLayouts refine(const SearchQuestion& question, const Scenario& scenario,
                                    const std::vector<FoundLayout>& best,
                                    const std::function<bool()>& end);

}  // namespace trainyard
