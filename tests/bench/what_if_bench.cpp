// How many full simulations a second of one scenario whose links change speed? Goal: 50 a second on
// one core for GPT-3 175B on 1 024 A100s, contention on.
#include <benchmark/benchmark.h>

#include "scenarios/simulate/simulate.hpp"
#include "shipped.hpp"

namespace trainyard {
namespace {

using namespace test;

void network_speeds(benchmark::State& state) {
  const Scenario scenario = gpt3_on_1024();
  Memo memo;
  const double usual_s = simulate(scenario, {.memory = false}, memo).timeline.makespan_s;
  double factor = 1.0;
  for (auto _ : state) {
    factor += 0.01;
    const double seconds =
        simulate(scenario, {.memory = false, .what_if = {.network = factor}}, memo)
            .timeline.makespan_s;
    if (seconds > usual_s) state.SkipWithError("a faster network makes the step slower");
  }
  state.counters["simulations"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

BENCHMARK(network_speeds)->Unit(benchmark::kMillisecond)->MinTime(2.0);

}  // namespace
}  // namespace trainyard
