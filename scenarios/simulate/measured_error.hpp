// The error of predictions for runs like this one. The errors come from a comparison with measured
// runs, by kind of run (tools/studies/validate/data/errors.json, written by `trainyard validate
// --left-out --errors FILE`).
//
//    const std::optional<MeasuredError> error = measured_error(scenario);
//    error->mape;   // 0.042: 4.2 % on average over error->runs measured runs of error->kind
#pragma once

#include <optional>
#include <string>

#include "scenarios/reader/scenario.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// The properties that determine which kernels a run consists of.
struct RunKind {
  std::string generation;  // of the GPU: "ampere"
  int bits = 16;           // of the operands of linear layers: 32, 16, 8 or 4
  bool experts = false;    // a mixture of experts
  auto operator<=>(const RunKind&) const = default;
};

[[nodiscard]] RunKind kind_of(const Scenario& scenario);
// Returns "16-bit dense models on ampere".
[[nodiscard]] std::string to_text(const RunKind& kind);

// Returns the error of measured runs of the scenario's kind, or of its GPU generation where there
// are too few. Returns nothing where no run on that generation was measured, and for scenarios with
// ideal defaults, which correspond to no real run. Throws InputError where the table is malformed.
[[nodiscard]] std::optional<MeasuredError> measured_error(const Scenario& scenario);

}  // namespace trainyard
