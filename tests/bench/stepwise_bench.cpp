// Benchmarks of the stepwise model. Goals: a ring of 256 ranks (130 560 messages) under 3 s, of 1
// 024 ranks (2 095 104) under 40 s on SimGrid and 10 s on the ideal engine, and folded under 0.1 s.
#include <benchmark/benchmark.h>

#include <cmath>
#include <string>

#include "engine_run.hpp"

namespace trainyard {
namespace {

using namespace testing;

// Checks the result, because the time of a wrong result means nothing.
void play(benchmark::State& state, const RunWay& way) {
  const auto ranks = static_cast<std::uint32_t>(state.range(0));
  const std::uint64_t operations = ring_operations(ranks) / (way.fold.enabled ? ranks : 1);
  PlayedRing played;
  for (auto _ : state) {
    played = play_ring(ranks, way);
    const bool right = relative_error(played.makespan_s, ring_seconds(ranks)) <= 1e-9 &&
                       played.operations == operations;
    if (!right) state.SkipWithError("the ring does not take its closed form");
  }
  state.counters["messages"] = 2.0 * ranks * (ranks - 1.0);
  state.counters["operations"] = static_cast<double>(played.operations);
  state.counters["expand_s"] = played.expand_s;
  state.counters["fold_s"] = played.fold_s;
  state.counters["engine_s"] = played.engine_s;
}

void ring_on_ideal(benchmark::State& state) { play(state, {.engine = "ideal"}); }
void ring_on_simgrid(benchmark::State& state) { play(state, {.engine = "simgrid"}); }
void folded_ring(benchmark::State& state) {
  play(state, {.engine = "simgrid", .fold = {.enabled = true, .drop_uncontended = true}});
}

BENCHMARK(ring_on_ideal)->Arg(256)->Arg(1024)->Iterations(1)->Unit(benchmark::kSecond);
BENCHMARK(ring_on_simgrid)->Arg(256)->Arg(1024)->Iterations(1)->Unit(benchmark::kSecond);
BENCHMARK(folded_ring)->Arg(256)->Arg(1024)->Iterations(1)->Unit(benchmark::kSecond);

// Measures messages() and phases() of one algorithm alone, for a group of 64 ranks on 8 nodes, or
// on one node if the algorithm stays within a node.
void lower_row(benchmark::State& state, const CollectiveAlgorithm& algorithm) {
  const Cluster nodes = make_cluster({.nodes = 8, .gpus = 8, .reduces = true});
  const Cluster node = make_cluster({.nodes = 1, .gpus = 64, .reduces = true});
  const std::vector<std::uint32_t> gpus = gpus_of(64);
  const bool within = algorithm.refusal({.cluster = nodes, .gpus = gpus}).has_value();
  const PlacedGroup placed{.cluster = within ? node : nodes, .gpus = gpus};
  if (const auto refusal = algorithm.refusal(placed)) {
    state.SkipWithError(refusal->c_str());
    return;
  }
  state.counters["nodes"] = within ? 1.0 : 8.0;
  std::size_t phases = 0;
  std::size_t link_flows = 0;
  for (auto _ : state) {
    const std::vector<Phase> lowered = algorithm.phases(placed, Bytes{kGibibyte});
    phases = lowered.size();
    link_flows = 0;
    for (const Phase& phase : lowered) link_flows += phase.flows.size();
  }
  state.counters["phases"] = static_cast<double>(phases);
  state.counters["chains"] = static_cast<double>(link_flows);
}

const int kRegistered = [] {
  for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
    if (algorithm->op() != CollectiveOp::AllReduce) continue;
    benchmark::RegisterBenchmark(
        ("phases_of_all_reduce/" + std::string(algorithm->name())).c_str(),
        [algorithm](benchmark::State& state) { lower_row(state, *algorithm); })
        ->Unit(benchmark::kMillisecond);
  }
  return 0;
}();

}  // namespace
}  // namespace trainyard
