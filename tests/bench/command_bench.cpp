// Measures whole processes of the command.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

namespace {

void run_command(benchmark::State& state, const std::string& arguments, double points) {
  const std::string command = std::string(TRAINYARD_COMMAND) + " " + arguments + " > /dev/null";
  for (auto _ : state)
    if (std::system(command.c_str()) != 0) state.SkipWithError(command.c_str());
  state.counters["points"] = points;
}

// 8 B to 4 GiB, doubling. Goal: 30 sizes by 6 algorithms on 1 024 H100 under 2 s.
void collective_study(benchmark::State& state) {
  run_command(state,
              "collective all_reduce --node dgx_h100 --nodes 128 --sizes 8B:4GiB --algorithms "
              "ring,hierarchical,multi_level,tree,nvls_tree,nccl",
              30.0 * 6.0);
}

// Llama 3 405B for 54 days on 16 384 GPUs. Goal: 3 s on one core.
void goodput_of_weeks(benchmark::State& state) {
  run_command(state,
              "goodput scenarios/llama3/llama3_405b_16384xh100.json --preset llama3 --days 54 "
              "--runs 1000",
              1000.0);
}

// A year on 131 072 GPUs, where something fails every 23 minutes. Goal: 30 s and 500 MiB.
void goodput_of_a_year(benchmark::State& state) {
  run_command(state,
              "goodput scenarios/llama3/llama3_405b_16384xh100.json --preset llama3 --days 365 "
              "--runs 1000 --set cluster.nodes=16384 --set cluster.fabric.radix=128 --set "
              "parallelism.data=1024 --set training.global_batch_size=16384",
              1000.0);
}

BENCHMARK(goodput_of_weeks)->Iterations(1)->Unit(benchmark::kSecond)->UseRealTime();
BENCHMARK(goodput_of_a_year)->Iterations(1)->Unit(benchmark::kSecond)->UseRealTime();
BENCHMARK(collective_study)->Iterations(3)->Unit(benchmark::kSecond)->UseRealTime();

}  // namespace
