// Scenarios of the repository that benchmarks use.
#pragma once

#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"

namespace trainyard::test {

inline std::string shipped_file(const std::string& name) {
  return std::string(TRAINYARD_SOURCE_DIRECTORY) + "/scenarios/" + name;
}

// GPT-3 175B on 128 nodes of A100s: TP 8, PP 8, DP 16, 1F1B, 1 536 sequences.
inline Scenario gpt3_on_1024() {
  return load_scenario(shipped_file("megatron/gpt3_175b_64xa100_selective.json"),
                       {{"cluster.nodes", "128"},
                        {"parallelism.data", "16"},
                        {"parallelism.interleave", "1"},
                        {"parallelism.schedule", "1f1b"},
                        {"training.global_batch_size", "1536"}});
}

}  // namespace trainyard::test
