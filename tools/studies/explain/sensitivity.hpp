// Sensitivities: the step simulated with one change at a time, the largest saving first. They show
// what would make the step shorter.
//
//    for (const Sensitivity& s : sensitivities(scenario, run, {})) fmt::print("{}\n", s.name);
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "scenarios/simulate/what_if.hpp"

namespace trainyard {

struct Sensitivity {
  std::string name;  // "GEMMs twice as fast"
  WhatIf what_if = {};
  bool without_faults = false;                  // the cluster without its faults
  std::optional<DocumentBalance> balance = {};  // of the documents, where it is another one
  double step_time_s = 0.0;
  double base_s = 0.0;  // step time of the unchanged scenario
  // The share of the step that the change saves; 0.1 means 10 % shorter.
  [[nodiscard]] double saving() const { return base_s > 0.0 ? 1.0 - step_time_s / base_s : 0.0; }
};

// The what-ifs that can change this run: faster hardware (network, NVLink, arithmetic, memory),
// removed obstacles (latency, contention, faults), and perfect overlap (communication of each kind
// of group, and of all groups, at no cost). Their times are zero.
[[nodiscard]] std::vector<Sensitivity> what_ifs(const Scenario& scenario, const Result& run);

struct SensitivityOptions {
  std::size_t processes = 0;  // 0: one per core
  // simulations done, and all simulations
  std::function<void(std::size_t, std::size_t)> progress = {};
  // Polled often. It throws to end the simulations: what it throws reaches the caller.
  std::function<bool()> end = {};
};

// Simulates each what-if and returns them with the largest saving first. `run` is the result of the
// unchanged scenario.
[[nodiscard]] std::vector<Sensitivity> sensitivities(const Scenario& scenario, const Result& run,
                                                     const SensitivityOptions& options);

[[nodiscard]] std::string sensitivities_text(const std::vector<Sensitivity>& rows);
// [{what, step_time_s, saving}]
[[nodiscard]] nlohmann::ordered_json sensitivities_json(const std::vector<Sensitivity>& rows);

}  // namespace trainyard
