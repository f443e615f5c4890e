// Many runs: scenarios with changes, each simulated in a process of its own, into one row each.
//
//   std::vector<Variant> variants = {{"a.json", {}}, {"a.json", {{"parallelism.tensor", "4"}}}};
//   Journal journal("out.jsonl");
//   run_batch(variants, {.journal = journal});
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/batch/journal.hpp"
#include "scenarios/scenario.hpp"

namespace trainyard {

struct Variant {
  std::string file;
  std::vector<Override> changes = {};
};

// What a variant is called in a journal: its file and its changes, in their order.
[[nodiscard]] std::string variant_key(const Variant& variant);

// The row of a variant, simulated here and now:
//   key, scenario (file), set (path: value as given)
//   status      "fits", "does_not_fit", "deadlock" (the run says no), "refused" (bad input)
//   message     why, where the status is one of the last two, else null
//   inputs      the resolved scenario, flattened ("parallelism.tensor": 8)
//   result      the scalars of the result, flattened ("step_time_s", "memory.0.peak_bytes")
// What cannot be simulated has no inputs or result (null).
[[nodiscard]] nlohmann::ordered_json variant_row(const Variant& variant);

struct BatchOptions {
  Journal& journal;
  std::size_t processes = 0;  // 0: one per core
  // After each row: how many are done, of how many; what the journal had counts as done.
  std::function<void(std::size_t, std::size_t)> progress = {};
  std::function<bool()> stop = {};  // true: start no more
};

// Runs the variants that the journal does not have. A worker that crashes leaves a row with status
// "crashed" and the reason.
void run_batch(const std::vector<Variant>& variants, const BatchOptions& options);

}  // namespace trainyard
