// Many runs: scenarios with changes, each simulated in a process of its own, into one row each.
//
//   std::vector<Variant> variants = {{"a.json", {}}, {"a.json", {{"parallelism.tensor", "4"}}}};
//   Journal journal = open_journal("out.jsonl");
//   run_batch(variants, {.journal = journal});
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "tools/studies/batch/journal.hpp"

namespace trainyard {

struct Variant {
  std::string file;
  std::vector<Override> changes = {};
};

// The name of a variant in a journal: its file and its changes, in their order.
[[nodiscard]] std::string variant_key(const Variant& variant);

// The journal of a file whose rows carry fingerprints; of no file, one in memory. Throws InputError
// as Journal does.
[[nodiscard]] Journal open_journal(const std::filesystem::path& file);

struct BatchOptions {
  Journal& journal;
  std::size_t processes = 0;  // 0: one per core
  // After each row: how many are done, of how many; what the journal had counts as done.
  std::function<void(std::size_t, std::size_t)> progress = {};
  std::function<bool()> stop = {};  // true: start no more
  std::function<bool()> end = {};   // true: what is under way is ended, and leaves no row
  // Told before the first run: how many rows the journal had that no longer hold.
  std::function<void(std::size_t)> redone = {};
};

// Drops the rows of these variants that were computed from another scenario, other files, data or
// another program, or by a version that wrote no fingerprints, and returns how many these were. A
// journal without a state drops nothing.
std::size_t drop_outdated(Journal& journal, const std::vector<Variant>& variants);

// Runs the variants that the journal does not have, outdated rows again. A worker that crashes
// leaves a row with status "crashed" and the reason.
void run_batch(const std::vector<Variant>& variants, const BatchOptions& options);

}  // namespace trainyard
