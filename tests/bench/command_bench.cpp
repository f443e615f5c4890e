// Measures whole processes of the command. Goal: 30 sizes by 6 algorithms on 1 024 H100 under 2 s.
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

// 8 B to 4 GiB, doubling.
void collective_study(benchmark::State& state) {
  run_command(state,
              "collective all_reduce --node dgx_h100 --nodes 128 --sizes 8B:4GiB --algorithms "
              "ring,hierarchical,multi_level,tree,nvls_tree,nccl",
              30.0 * 6.0);
}

BENCHMARK(collective_study)->Iterations(3)->Unit(benchmark::kSecond)->UseRealTime();

}  // namespace
