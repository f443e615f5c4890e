// Benchmarks of the parts of a run: the cluster, the workload, folding, the engine, a trace of
// every rank, a search. The goals are for the whole runs; these benchmarks show where the time
// goes.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "models/lower/lower.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "shipped.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/engine/engine.hpp"
#include "sim/nccl/nccl_model.hpp"
#include "sim/render/traces/perfetto/perfetto_trace.hpp"
#include "tools/studies/search/search.hpp"
#include "topologies/topology.hpp"

namespace trainyard {
namespace {

using namespace test;

// H100 nodes of eight on a rail-optimised fabric, three tiers of switches with 128 ports.
void cluster_build(benchmark::State& state) {
  const ClusterSpec spec{.node = load_node("dgx_h100"),
                         .nodes = static_cast<std::uint32_t>(state.range(0)),
                         .fabric = {.kind = RailOptimized{.radix = 128}}};
  for (auto _ : state)
    state.counters["links"] = static_cast<double>(build_cluster(spec).links().size());
  state.counters["GPUs"] = static_cast<double>(gpu_count(spec));
}
BENCHMARK(cluster_build)->Arg(128)->Arg(2048)->Arg(16384)->Unit(benchmark::kMillisecond);

// Reads the file of a workload with a given number of operations. The rate must be the same at
// every length.
void document_read(benchmark::State& state) {
  std::string text = R"({"operations": [)";
  for (std::int64_t i = 0; i < state.range(0); ++i)
    text += fmt::format(R"({}{{"kind": "compute", "seconds": {}, "after": [{}]}})",
                        i == 0 ? "" : ", ", i, i);
  text += "]}";
  for (auto _ : state) benchmark::DoNotOptimize(parse_json("operations.json", text));
  state.SetItemsProcessed(state.range(0) * static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(document_read)->Arg(1'000)->Arg(100'000)->Unit(benchmark::kMillisecond);

void workload_build(benchmark::State& state) {
  const Scenario scenario = gpt3_on_1024();
  double operations = 0.0;
  for (auto _ : state) {
    const Workload workload = lower(scenario.plan);
    operations = 0.0;
    for (const Program& program : workload.programs)
      operations += static_cast<double>(program.operations.size());
  }
  state.counters["operations"] = operations;
}
BENCHMARK(workload_build)->Unit(benchmark::kMillisecond);

void folding(benchmark::State& state) {
  const Result run = simulate(gpt3_on_1024(), {});
  const nccl::NcclModel communication(*run.cluster, {});
  for (auto _ : state) {
    const Partition partition = fold(*run.cluster, *run.workload, communication,
                                     {.enabled = true, .drop_uncontended = true});
    state.counters["classes"] = static_cast<double>(partition.ranks.size());
  }
}
BENCHMARK(folding)->Unit(benchmark::kMillisecond);

// The engine with every operation as a separate event, and with regions as one event.
void engine(benchmark::State& state, const char* name, bool contract) {
  const Result run = simulate(gpt3_on_1024(), {});
  std::vector<double> seconds;
  for (const Cost& cost : run.kernel_costs) seconds.push_back(cost.time.value());
  std::uint64_t events = 0;
  std::uint64_t operations = 0;
  for (auto _ : state) {
    const Timeline timeline = make_engine(name)->run({.cluster = *run.cluster,
                                                      .workload = *run.workload,
                                                      .partition = *run.partition,
                                                      .kernel_seconds = seconds,
                                                      .contract = contract});
    events += timeline.counters.events;
    operations += timeline.counters.operations;
  }
  using benchmark::Counter;
  state.counters["events"] = Counter(static_cast<double>(events), Counter::kIsRate);
  state.counters["operations"] = Counter(static_cast<double>(operations), Counter::kIsRate);
}
BENCHMARK_CAPTURE(engine, simgrid, "simgrid", true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(engine, simgrid_uncontracted, "simgrid", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(engine, ideal, "ideal", true)->Unit(benchmark::kMillisecond);

// A trace in Perfetto's own format of all 1 024 ranks.
void trace_of_all_ranks(benchmark::State& state) {
  const Result run = simulate(gpt3_on_1024(), {});
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / "trainyard_parts_bench.pftrace";
  for (auto _ : state) {
    const TraceCounts counts = write_perfetto_trace(run.view(), file, {.all_ranks = true});
    state.counters["slices"] = static_cast<double>(counts.slices);
  }
  state.counters["bytes"] = static_cast<double>(std::filesystem::file_size(file));
  std::filesystem::remove(file);
}
BENCHMARK(trace_of_all_ranks)->Iterations(1)->Unit(benchmark::kSecond);

// Llama-3 70B on 512 H100s: layouts per second, simulated or pruned by their bounds.
void layout_search(benchmark::State& state) {
  const SearchSpace space{.scenario = {.file = std::string(TRAINYARD_SOURCE_DIRECTORY) +
                                               "/scenarios/llama3/llama3_70b_64xh100.json",
                                       .changes = {{"cluster.nodes", "64"},
                                                   {"parallelism.data", "16"},
                                                   {"training.global_batch_size", "1024"}}}};
  SearchCounts counts;
  for (auto _ : state) {
    Journal journal("");
    counts = search({.space = space, .journal = journal}).counts;
  }
  state.counters["simulated"] = static_cast<double>(counts.simulated);
  state.counters["layouts"] =
      benchmark::Counter(static_cast<double>(counts.legal), benchmark::Counter::kIsRate);
}
BENCHMARK(layout_search)->Iterations(1)->Unit(benchmark::kSecond)->UseRealTime();

}  // namespace
}  // namespace trainyard
