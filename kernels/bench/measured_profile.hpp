// The profilers write provenance and one row for each measured task. The format is described
// in kernels/bench/README.md.
//
//   MeasuredProfile profile = resume_profile("h200.json", provenance);
//   if (!profile.has(task)) profile.rows.push_back(measure(task));
//   write_partial(profile, "h200.json");   // h200.json.partial
//   finish_profile(profile, "h200.json");  // the partial file is renamed
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/bench/task.hpp"
#include "sim/base/error.hpp"

namespace trainyard::bench {

// How often each task runs. Fixed, so that profiles of different days compare.
inline constexpr int warm_up_runs = 10;
inline constexpr int timed_runs = 21;  // odd: the median is one of them

// cuBLASLt's heuristic orders algorithms by its own estimate; the best of the first few is taken.
inline constexpr int algorithms_tried = 8;
inline constexpr int trial_runs = 4;

// A summary of repeated timings: the median, and the times that a tenth of them lie below or above.
//
//   spread_of({3.0, 1.0, 2.0});   // median 2.0, p10 1.2, p90 2.8
struct Spread {
  double median = 0.0;
  double p10 = 0.0;
  double p90 = 0.0;
  bool operator==(const Spread&) const = default;
};

// Quantiles by linear interpolation between order statistics (Hyndman and Fan 1996, type 7).
// REQUIRES: at least one sample.
[[nodiscard]] Spread spread_of(std::vector<double> samples);

// This GPU or library cannot do the task (fp8 before Hopper, too little memory): it is left out and
// listed, and the others go on.
struct Unsupported : RunError {
  using RunError::RunError;
};
// The GPU computed something else than the reference. Such a row is not written.
struct WrongResult : RunError {
  using RunError::RunError;
};

// Interference measures more than the product's time: the product alone, and the bytes that the
// kernel on the held SMs copies beside it and by itself.
struct Beside {
  double alone_us = 0.0;
  double copied_bytes_per_s = 0.0;
  double copied_alone_bytes_per_s = 0.0;
  bool operator==(const Beside&) const = default;
};

// Rows exist only for results that agreed with the CPU reference.
struct MeasuredRow {
  Task task;
  Spread time_us;
  std::string chosen;  // the algorithm a library ran; empty for our own kernels
  std::optional<Beside> beside = std::nullopt;  // of interference
  bool operator==(const MeasuredRow&) const = default;
};

struct MeasuredProfile {
  nlohmann::ordered_json provenance;  // GPU, versions, clocks, date, command
  std::vector<MeasuredRow> rows;
  [[nodiscard]] bool has(const Task& task) const;
};

[[nodiscard]] nlohmann::ordered_json profile_to_json(const MeasuredProfile& profile);
// Throws InputError for anything but a profile of this schema and version, all problems together.
[[nodiscard]] MeasuredProfile read_profile(const std::filesystem::path& file);

// The rows that `file` and its partial sibling hold already, under the new provenance. Throws
// InputError when they were measured on another GPU, driver or library version: rows of one profile
// must compare.
[[nodiscard]] MeasuredProfile resume_profile(const std::filesystem::path& file,
                                             const nlohmann::ordered_json& provenance);

// Throws InputError that names the file where two provenances differ in GPU, driver or a library.
void refuse_other_machines(const nlohmann::ordered_json& one, const nlohmann::ordered_json& other,
                           const std::string& file);

[[nodiscard]] std::filesystem::path partial_name(const std::filesystem::path& file);
void write_partial(const MeasuredProfile& profile, const std::filesystem::path& file);
// Writes the partial file once more and renames it.
void finish_profile(const MeasuredProfile& profile, const std::filesystem::path& file);

}  // namespace trainyard::bench
