// Predicts the step time of a scenario, and how it changes with the sequences of a microbatch.
//
//    step_time [SCENARIO]     default: a scenario that is installed with the library
#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"

int main(int argc, char** argv) {
  const std::string file = argc > 1 ? argv[1] : "scenarios/llama3/llama3_8b_8xh100.json";
  try {
    for (const char* sequences : {"1", "2"}) {
      const trainyard::Scenario scenario =
          trainyard::load_scenario(file, {{"training.micro_batch_size", sequences}});
      const trainyard::Result result = trainyard::simulate(scenario);
      fmt::print("micro_batch_size {}: one step takes {:.3f} s\n", sequences,
                 result.view().step_s());
    }
  } catch (const trainyard::InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
