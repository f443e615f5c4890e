// Measured memory as rows of a validation: peaks of runs that another data set describes, and
// figures of published breakdowns.
//
// A row has one of two forms. It contains the id of a run in training/published.json next to the
// file ("training_id") and its peak in GiB ("metric", "value"): peak_mem_allocated_gib is the
// memory that PyTorch's allocator has given out, peak_mem_gib the memory that it has reserved
// (torchtitan prints the latter). Or it contains the settings of a figure ("config", "mode") with
// the state and the activations of its first pipeline stage. The scenario that predicts the row is
// simulated like any other.
//
//    if (is_memory_dataset("memory.json"))
//      for (const MemoryOutcome& row : validate_memory("memory.json", choice, {}))
//        if (row.predicted()) use(row.error());
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/studies/validate/validation.hpp"

namespace trainyard {

struct MemoryOutcome {
  std::string id;
  std::string source;  // the part of the id between its first and second '-'
  std::string figure;  // "allocated", "reserved", "state of the first stage", "activations of ..."
  std::string reason = {};  // why there is no prediction; empty if there is one
  double measured_gib = 0.0;
  double predicted_gib = 0.0;

  [[nodiscard]] bool predicted() const { return reason.empty(); }
  // predicted / measured - 1. REQUIRES: predicted().
  [[nodiscard]] double error() const { return predicted_gib / measured_gib - 1.0; }
};

// Whether a file contains measured memory, by its contents: a list whose first row has a
// "training_id" or a "mode". Throws InputError if the file cannot be read.
[[nodiscard]] bool is_memory_dataset(const std::filesystem::path& file);

using RowChosen = std::function<bool(const std::string& id)>;
// One outcome for each figure of the chosen rows, in their order. Throws InputError if a row is
// malformed, or if no row is chosen.
[[nodiscard]] std::vector<MemoryOutcome> validate_memory(const std::filesystem::path& file,
                                                         const RowChosen& chosen,
                                                         const ValidateOptions& options);

// The report as text: errors by source and figure, every row, and the figures without prediction
// with the reason.
[[nodiscard]] std::string memory_rows_text(const std::vector<MemoryOutcome>& outcomes);
[[nodiscard]] nlohmann::ordered_json memory_rows_json(const std::vector<MemoryOutcome>& outcomes);

}  // namespace trainyard
