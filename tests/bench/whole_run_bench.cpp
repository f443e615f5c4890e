// Benchmarks of whole runs against the baseline: user seconds and peak memory of the process, and
// both as ratios to the values in baseline.json (below 1: less than the baseline). Goals: Llama-3
// 405B on 16 384 GPUs 0.5 s and 300 MB, on 131 072 at most 1.5 times that; GPT-3 175B on 1 024 0.1
// s and with the trace of all ranks 30 s; DeepSeek-V3 on 2 048 1 s. TRAINYARD_BLESS=1 stores the
// measured values as the baseline.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "tests/bench/whole_runs.hpp"

namespace trainyard {
namespace {

using namespace test;

// Measures the run once more and stores the result.
void keep(const WholeRun& run, const Played& played) {
  std::vector<WholeRun> runs = read_whole_runs();
  const auto row = std::ranges::find(runs, run.name, &WholeRun::name);
  row->user_s = played.user_s;
  row->peak_bytes = played.peak_bytes;
  write_whole_runs(runs);
}

void whole_run(benchmark::State& state, const WholeRun& run) {
  Played played;
  for (auto _ : state) played = play(run);
  if (played.counts.empty() || !difference(run.counts, played.counts).empty()) {
    state.SkipWithError("the counts are not those of the baseline");
    return;
  }
  constexpr double kMebibyte = 1048576.0;
  state.counters["user_s"] = played.user_s;
  state.counters["user_ratio"] = played.user_s / run.user_s;
  state.counters["peak_MiB"] = static_cast<double>(played.peak_bytes) / kMebibyte;
  state.counters["peak_ratio"] =
      static_cast<double>(played.peak_bytes) / static_cast<double>(run.peak_bytes);
  for (const auto& [name, count] : played.counts) state.counters[name] = static_cast<double>(count);
  if (std::getenv("TRAINYARD_BLESS") != nullptr) keep(run, played);
}

const int kRegistered = [] {
  for (const WholeRun& run : read_whole_runs()) {
    benchmark::RegisterBenchmark(("whole_run/" + run.name).c_str(),
                                 [run](benchmark::State& state) { whole_run(state, run); })
        ->Iterations(1)
        ->Unit(benchmark::kSecond)
        ->UseRealTime();
  }
  return 0;
}();

}  // namespace
}  // namespace trainyard
