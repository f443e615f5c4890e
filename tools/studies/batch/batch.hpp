// Batches: many scenarios with changes, each simulated in a separate process, one result row for
// each.
//
//    std::vector<Variant> variants = {{"a.json", {}}, {"a.json", {{"parallelism.tensor", "4"}}}};
//    Journal journal = open_journal("out.jsonl");
//    run_batch(variants, {.journal = journal});
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "tools/studies/batch/journal.hpp"

namespace trainyard {

struct Variant {
  std::string file;
  std::vector<Override> changes = {};
  // The scenario in memory; `file` is then its name in messages and rows, and no two documents of a
  // journal have the same name. Null: the scenario is read from the file.
  std::shared_ptr<const nlohmann::ordered_json> document = {};
};

// Reads and checks the scenario of a variant, with its changes and those of `more` after them.
// Throws InputError.
[[nodiscard]] Scenario load_variant(const Variant& variant, const std::vector<Override>& more = {});

// The key of a variant in a journal: its file and its changes, in their order.
[[nodiscard]] std::string variant_key(const Variant& variant);

// Opens the journal of a file, with rows that carry fingerprints. Without a file the journal is in
// memory only. Throws InputError as Journal does.
[[nodiscard]] Journal open_journal(const std::filesystem::path& file);

struct BatchOptions {
  Journal& journal;
  std::size_t processes = 0;  // 0: one per core
  // Called after each row with the number of rows done and of all rows. Rows that the journal
  // already had count as done.
  std::function<void(std::size_t, std::size_t)> progress = {};
  std::function<bool()> stop = {};  // true: start no further simulation
  std::function<bool()> end = {};   // true: end the running simulations; they leave no row
  // Called before the first run with the number of rows in the journal that are no longer valid.
  std::function<void(std::size_t)> redone = {};
};

// Drops the rows of these variants that are out of date, and returns their number. A row is out of
// date if it was computed from another scenario, other files or data, or by another program, or by
// a version that wrote no fingerprints. A journal without a state drops nothing.
std::size_t drop_outdated(Journal& journal, const std::vector<Variant>& variants);

// Simulates a variant in this process and returns its row. run_batch() makes its rows so, in worker
// processes of its own; other workers call this function. `state` is that of the journal.
[[nodiscard]] nlohmann::ordered_json variant_row(const Variant& variant, const std::string& state);

// The row of a variant whose worker ended without an answer, for the reason in `message`.
[[nodiscard]] nlohmann::ordered_json crashed_row(const Variant& variant,
                                                 const std::string& message);

// Runs the variants that the journal does not have or whose rows are out of date. A worker that
// crashes leaves a row with status "crashed" and the reason.
void run_batch(const std::vector<Variant>& variants, const BatchOptions& options);

}  // namespace trainyard
