// How far off are predictions of runs like this one? What comparing them with measured runs found,
// by the kind of run (tools/studies/validate/data/errors.json, written by `trainyard validate
// --left-out --errors FILE`).
//
//   const std::optional<MeasuredError> error = measured_error(scenario);
//   error->mape;   // 0.044: 4.4 % on average over error->runs measured runs of error->kind
#pragma once

#include <optional>
#include <string>

#include "scenarios/reader/scenario.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// The features that decide which kernels a run is made of.
struct RunKind {
  std::string generation;  // of the GPU: "ampere"
  int bits = 16;           // of the numbers that linear layers multiply: 32, 16, 8 or 4
  bool experts = false;    // a mixture of experts
  auto operator<=>(const RunKind&) const = default;
};

[[nodiscard]] RunKind kind_of(const Scenario& scenario);
// "16-bit dense models on ampere"
[[nodiscard]] std::string to_text(const RunKind& kind);

// The error of measured runs of the scenario's kind; where there are too few, of its generation of
// GPUs. Nothing where no run on that generation was measured, and for the ideal, which no run is.
// Throws InputError where the table is malformed.
[[nodiscard]] std::optional<MeasuredError> measured_error(const Scenario& scenario);

}  // namespace trainyard
