// Predicts many measured rows: each row becomes a scenario, which is simulated in a separate
// process.
//
//    const std::vector<Outcome> outcomes = validate(read_dataset("published.json"), {});
//    score_of_all(outcomes).score.mape;
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tools/studies/validate/constants.hpp"
#include "tools/studies/validate/outcome.hpp"

namespace trainyard {

struct ValidateOptions {
  std::size_t processes = 0;  // 0: one per core
  // A cache of answers (JSON Lines, tools/studies/batch) by the scenario, the files it names, the
  // program and the data. Cached scenarios are not simulated once more. Empty: no cache.
  std::filesystem::path cache = {};
  std::filesystem::path scenarios = {};  // a folder for each row's scenario; empty: none
  // A folder of data that simulations read before all others (data_directory.hpp); empty: none.
  std::filesystem::path data = {};
  std::function<void(double)> progress = {};
};

// One outcome for each row, in their order. Throws InputError if a file cannot be written.
[[nodiscard]] std::vector<Outcome> validate(const std::vector<MeasuredRow>& rows,
                                            const ValidateOptions& options);

// Rows, and the data as they are known without these rows.
struct LeftOut {
  std::vector<std::string> sources;  // rows of these sources
  std::vector<std::string> gpus;     // or rows on a GPU whose name begins so
  std::vector<Setting> settings;     // constants that these rows fitted
  std::vector<PricedAs> priced_as;   // GPUs that only tables of these GPUs measured
  bool new_framework = false;        // no other rows used the framework of these
};

// Reads data/left_out.json. Throws InputError, also if a constant is not in its file.
[[nodiscard]] std::vector<LeftOut> load_left_out();

// Predicts rows as if their source, or their GPU, had never been measured.
//
// Some constants of the data files were fitted to measured steps. For each of them
// data/left_out.json states which rows fitted it, and its best known value without these rows:
// published rates of kernels, tables of single kernels, or the same constant fitted to another
// source. By Feature::Source, a source is predicted with those values instead of the ones that its
// own rows fitted; the other sources keep theirs. By Feature::Gpu, a GPU with tables of kernels has
// only its data sheet: it is priced by the tables of the generation before it or after it.
//
// This is validate() with other data for the rows of an entry. It writes no scenarios. REQUIRES:
// one of these two features. Throws InputError.
[[nodiscard]] std::vector<Outcome> validate_left_out(const std::vector<MeasuredRow>& rows,
                                                     const ValidateOptions& options,
                                                     Feature feature = Feature::Source);

}  // namespace trainyard
