// Why the step takes as long as it does and what would make it shorter, for `explain` and
// `run --explain`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/render/page/page.hpp"

namespace trainyard {

struct Explanation {
  std::string text;             // critical path, slack, sensitivities
  nlohmann::ordered_json json;  // {critical_path, sensitivities}
  std::vector<PageGain> gains;
};
// Simulates each what-if, on `processes` cores (0: all).
[[nodiscard]] Explanation explanation(const Scenario& scenario, const Result& run,
                                      std::size_t processes);

}  // namespace trainyard
