// The difference between a simulated and a measured step by kind of operation.
//
//    const StepDiff diff = step_diff(step_profile(run, 0), read_step_profiles(file, {}).front());
//    diff.kinds.front().kind;              // the largest difference first
//    say("{}", diff_text({diff}, "h100"));
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tools/studies/validate/step_profile.hpp"

namespace trainyard {

struct KindDiff {
  OperationKind kind = OperationKind::Gemm;
  KindTime simulated = {};
  KindTime measured = {};
  [[nodiscard]] double difference_s() const { return simulated.seconds - measured.seconds; }
};

struct StepDiff {
  StepProfile simulated = {};
  StepProfile measured = {};
  std::vector<KindDiff> kinds = {};  // the largest difference first; empty: only times are known
  std::vector<std::string> assumptions = {};
};

// Simulated all_to_all counts as send_recv where the trace does not tell them apart.
[[nodiscard]] StepDiff step_diff(StepProfile simulated, StepProfile measured);

// Traces to compare with a run.
struct TraceQuestion {
  std::vector<std::string> files;
  // One for each measured step, in their order. Empty: as the traces name them, else 0, 1, 2 ...
  std::vector<std::uint32_t> ranks = {};
  std::string step_range = {};  // as NsysOptions::step_range
};
// Reads the measured steps; each has a rank. Throws InputError, also for another number of ranks.
[[nodiscard]] std::vector<StepProfile> measured_steps(const TraceQuestion& question);
// Compares each with the simulated rank. Throws InputError for a rank that the run does not have.
[[nodiscard]] std::vector<StepDiff> step_diffs(const Result& run,
                                               std::vector<StepProfile> measured);

// For each rank: a sentence with the largest differences, a table, what was assumed, and which
// constant would close each gap. `gpu` is the profile of the scenario's GPU.
[[nodiscard]] std::string diff_text(const std::vector<StepDiff>& ranks, const std::string& gpu);

// docs/reference/step_diff.md lists the keys.
[[nodiscard]] nlohmann::ordered_json diff_json(const std::vector<StepDiff>& ranks);

}  // namespace trainyard
