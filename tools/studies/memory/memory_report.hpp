// What `trainyard memory` says of a run: stage by stage, category by category, over time; the
// verdict; and where it does not fit, what would (ways_to_fit.hpp).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "scenarios/simulate/simulate.hpp"
#include "tools/studies/memory/ways_to_fit.hpp"

namespace trainyard {

struct MemoryReport {
  const Scenario& scenario;
  const Result& run;
  std::optional<FitSearch> search;  // where the plan does not fit
};

// For a terminal: plain text of at most 100 columns.
[[nodiscard]] std::string memory_text(const MemoryReport& report);
// Everything, the curves of the fullest rank of every stage included.
[[nodiscard]] nlohmann::ordered_json memory_json(const MemoryReport& report);
// A page of its own, without scripts or anything from elsewhere: one picture for each stage.
[[nodiscard]] std::string memory_page(const MemoryReport& report);

}  // namespace trainyard
