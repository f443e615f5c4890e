// The outcome of a measured row: its prediction and measurement, or the reason why there is no
// prediction.
//
//    const Outcome outcome = outcome_of(row, answer);
//    if (outcome.predicted()) outcome.error();     // -0.031: 3.1 % too fast
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/simulate/step_interval.hpp"
#include "tools/studies/validate/dataset.hpp"

namespace trainyard {

// A share of the predicted step, averaged over all ranks.
struct TimePart {
  std::string name;  // as in the result: "exposed_data", or "compute: gemm"
  double seconds = 0.0;
};

// The predicted memory of a rank, in GiB.
struct PredictedMemory {
  double reserved = 0.0;  // by the allocator, on the fullest rank
  // The first stage at its peak: weights, gradients and optimizer state; activations.
  double first_state = 0.0;
  double first_activations = 0.0;
};

// The ends between which nine of ten measured steps lie (sim/report/interval.hpp), in seconds.
struct PredictedInterval {
  double low = 0.0;
  double high = 0.0;
};

struct Outcome {
  MeasuredRow row;
  std::string reason = {};  // why there is no prediction; empty if there is one
  double predicted_s = 0.0;
  double peak_memory_gib = 0.0;  // given out by the allocator on the fullest rank
  PredictedMemory memory = {};
  bool fits = true;
  double wall_s = 0.0;               // duration of the simulation
  std::vector<TimePart> parts = {};  // largest first; their sum is the step
  UncertainShares uncertain = {};    // of the step; zero for collectives
  std::optional<PredictedInterval> interval = {};
  nlohmann::ordered_json scenario = {};  // as simulated; null if no scenario could be made

  [[nodiscard]] bool predicted() const { return reason.empty(); }
  // Whether predicted and measured steps can be compared: some rows have measured memory only.
  [[nodiscard]] bool timed() const { return predicted() && row.step_time_s > 0.0; }
  // predicted / measured - 1. REQUIRES: timed().
  [[nodiscard]] double error() const { return predicted_s / row.step_time_s - 1.0; }
  [[nodiscard]] std::optional<double> memory_error() const;
  // Whether the measured step is within the interval; nothing without one, or without a time.
  [[nodiscard]] std::optional<bool> inside() const;
};

// Simulates a scenario in this process and returns step_time_s, interval_s, parts, uncertain,
// peak_memory_gib, memory_gib, fits, wall_s. Throws the exceptions of reading and running a
// scenario.
[[nodiscard]] nlohmann::ordered_json simulate_document(const std::string& name,
                                                       const nlohmann::ordered_json& document);

// The outcome of a row, from the result of simulate_document.
[[nodiscard]] Outcome outcome_of(const MeasuredRow& row, const nlohmann::ordered_json& answer);

// The `most` largest parts as text: "compute: gemm 61 %, exposed_tensor 20 %, bubble 9 %".
[[nodiscard]] std::string parts_text(const Outcome& outcome, std::size_t most);

}  // namespace trainyard
