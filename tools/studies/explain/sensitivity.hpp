// Tells what would make the step shorter: the step simulated again with one thing changed at a
// time, the most rewarding first.
//
//   for (const Sensitivity& s : sensitivities(scenario, run, {})) fmt::print("{}\n", s.name);
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "scenarios/simulate/what_if.hpp"

namespace trainyard {

struct Sensitivity {
  std::string name;  // "GEMMs twice as fast"
  WhatIf what_if = {};
  bool without_faults = false;  // the cluster as it should be
  double step_time_s = 0.0;
  double base_s = 0.0;  // of the scenario as it is
  // The share of the step that it saves; 0.1: 10 % shorter.
  [[nodiscard]] double saving() const { return base_s > 0.0 ? 1.0 - step_time_s / base_s : 0.0; }
};

// The what-ifs that can change this run: what is bought (network, NVLink, faster arithmetic,
// memory), what is fixed (latency, contention, faults), what overlap could hide at most
// (communication of each kind of group, all of it, free of charge). Times are zero.
[[nodiscard]] std::vector<Sensitivity> what_ifs(const Scenario& scenario, const Result& run);

struct SensitivityOptions {
  std::size_t processes = 0;                                    // 0: one per core
  std::function<void(std::size_t, std::size_t)> progress = {};  // done, of how many
};

// Each of them simulated, the largest saving first. `run` is the scenario's own.
[[nodiscard]] std::vector<Sensitivity> sensitivities(const Scenario& scenario, const Result& run,
                                                     const SensitivityOptions& options);

[[nodiscard]] std::string sensitivities_text(const std::vector<Sensitivity>& rows);
// [{what, step_time_s, saving}]
[[nodiscard]] nlohmann::ordered_json sensitivities_json(const std::vector<Sensitivity>& rows);

}  // namespace trainyard
