// The file that the profilers write: provenance, and one row for each measured task.
// kernels/bench/README.md describes the format.
//
//    MeasuredProfile profile = resume_profile("h200.json", provenance);
//    if (!profile.has(task)) profile.rows.push_back({.task = task, .time_us = spread_of(runs_us)});
//    write_partial(profile, "h200.json");   // h200.json.partial
//    finish_profile(profile, "h200.json");  // the partial file is renamed
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/bench/task.hpp"
#include "sim/base/error.hpp"

namespace trainyard::bench {

// Number of runs of each task. It is fixed, so that profiles of different days can be compared.
inline constexpr int warm_up_runs = 10;
inline constexpr int timed_runs = 21;  // odd: the median is one of them

// cuBLASLt's heuristic orders algorithms by its own estimate. The profiler times the first few and
// uses the fastest.
inline constexpr int algorithms_tried = 8;
inline constexpr int trial_runs = 4;

// Summary of repeated timings: the median, and the times that a tenth of the runs are below (p10)
// or above (p90).
//
//    spread_of({3.0, 1.0, 2.0});   // median 2.0, p10 1.2, p90 2.8
struct Spread {
  double median = 0.0;
  double p10 = 0.0;
  double p90 = 0.0;
  bool operator==(const Spread&) const = default;
};

// Quantiles by linear interpolation between order statistics (Hyndman and Fan 1996, type 7).
// REQUIRES: at least one sample.
[[nodiscard]] Spread spread_of(std::vector<double> samples);

// This GPU or library cannot run the task (fp8 before Hopper, too little memory). The task is left
// out and listed, and the run continues.
struct Unsupported : RunError {
  using RunError::RunError;
};
// The GPU's result differs from the reference. Such a row is not written.
struct WrongResult : RunError {
  using RunError::RunError;
};

// Additional results of interference: the time of the GEMM alone, and the rate of the kernel on the
// occupied SMs, concurrently with the GEMM and alone.
struct InterferenceResult {
  double alone_us = 0.0;
  double copied_bytes_per_s = 0.0;
  double copied_alone_bytes_per_s = 0.0;
  bool operator==(const InterferenceResult&) const = default;
};

// A row exists only if its result agreed with the CPU reference.
struct MeasuredRow {
  Task task;
  Spread time_us;
  std::string chosen;  // the algorithm that a library ran; empty for our own kernels
  std::optional<InterferenceResult> interference = std::nullopt;  // for interference
  bool operator==(const MeasuredRow&) const = default;
};

struct MeasuredProfile {
  nlohmann::ordered_json provenance;  // GPU, versions, clocks, date, command
  std::vector<MeasuredRow> rows;
  [[nodiscard]] bool has(const Task& task) const;
};

[[nodiscard]] nlohmann::ordered_json profile_to_json(const MeasuredProfile& profile);
// Throws InputError for anything but a profile of this schema and version; one error lists all
// problems.
[[nodiscard]] MeasuredProfile read_profile(const std::filesystem::path& file);

// The rows that `file` and its partial file contain already, with the new provenance. Throws
// InputError when they were measured on another GPU, driver or library version, because rows of one
// profile must be comparable.
[[nodiscard]] MeasuredProfile resume_profile(const std::filesystem::path& file,
                                             const nlohmann::ordered_json& provenance);

// Throws InputError with the name of the file where two provenances differ in GPU, driver or a
// library.
void refuse_other_machines(const nlohmann::ordered_json& one, const nlohmann::ordered_json& other,
                           const std::string& file);

[[nodiscard]] std::filesystem::path partial_name(const std::filesystem::path& file);
void write_partial(const MeasuredProfile& profile, const std::filesystem::path& file);
// Writes the partial file a last time and renames it.
void finish_profile(const MeasuredProfile& profile, const std::filesystem::path& file);

}  // namespace trainyard::bench
