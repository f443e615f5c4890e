// How many full simulations a second of one scenario whose links change speed? Goal: 50 a second on
// one core for GPT-3 175B on 1 024 A100s, contention on.
#include <benchmark/benchmark.h>

#include "scenarios/run/run.hpp"
#include "shipped.hpp"

namespace trainyard {
namespace {

using namespace test;

void network_speeds(benchmark::State& state) {
  WhatIf what_if(gpt3_on_1024(), {});
  const double usual_s = what_if.run({}).timeline.makespan_s;
  double factor = 1.0;
  for (auto _ : state) {
    factor += 0.01;
    const double seconds = what_if.run({.network = factor}).timeline.makespan_s;
    if (seconds > usual_s) state.SkipWithError("a faster network makes the step slower");
  }
  state.counters["simulations"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

BENCHMARK(network_speeds)->Unit(benchmark::kMillisecond)->MinTime(2.0);

}  // namespace
}  // namespace trainyard
