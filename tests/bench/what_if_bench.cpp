// Benchmark of what-ifs of one scenario per second, with contention. Goal: 225 per second on one
// core for GPT-3 175B on 1 024 A100s with another network, other kernels, other numbers of
// microbatches.
#include <benchmark/benchmark.h>

#include <optional>

#include "scenarios/simulate/simulate.hpp"
#include "shipped.hpp"

namespace trainyard {
namespace {

using namespace test;

// Simulations per second, in one process, of the scenario after `change`.
template <class Change>
void what_ifs(benchmark::State& state, const Change& change) {
  const Scenario scenario = gpt3_on_1024();
  Memo memo;
  double factor = 1.0;
  for (auto _ : state) {
    factor += 0.01;
    Scenario changed = scenario;
    SimulateOptions options{.figures = false};
    change(changed, options.what_if, factor);
    benchmark::DoNotOptimize(simulate(changed, options, memo).timeline.makespan_s);
  }
  state.counters["simulations"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void network_rates(benchmark::State& state) {
  what_ifs(state, [](Scenario&, WhatIf& what_if, double factor) { what_if.network = factor; });
}
void kernel_factors(benchmark::State& state) {
  what_ifs(state, [](Scenario&, WhatIf& what_if, double factor) { what_if.gemm = 1.0 / factor; });
}
// No number of microbatches occurs twice: after 64 of them a new memo starts with the unchanged
// scenario.
void microbatches(benchmark::State& state) {
  constexpr std::int64_t kNumbers = 64;
  const Scenario scenario = gpt3_on_1024();
  const std::int64_t one = scenario.plan.training.micro_batch_size * scenario.plan.parallelism.data;
  const SimulateOptions options{.figures = false};
  std::optional<Memo> memo;
  std::int64_t more = kNumbers;
  for (auto _ : state) {
    if (more == kNumbers) {
      state.PauseTiming();
      more = 0;
      benchmark::DoNotOptimize(simulate(scenario, options, memo.emplace()).timeline.makespan_s);
      state.ResumeTiming();
    }
    Scenario changed = scenario;
    changed.plan.training.global_batch_size += one * ++more;
    benchmark::DoNotOptimize(simulate(changed, options, *memo).timeline.makespan_s);
  }
  state.counters["simulations"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

BENCHMARK(network_rates)->Unit(benchmark::kMillisecond)->MinTime(2.0);
BENCHMARK(kernel_factors)->Unit(benchmark::kMillisecond)->MinTime(2.0);
BENCHMARK(microbatches)->Unit(benchmark::kMillisecond)->MinTime(2.0);

}  // namespace
}  // namespace trainyard
