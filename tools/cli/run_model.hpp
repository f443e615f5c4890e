// `trainyard run --model`: a scenario without a file. The layout is the quickest that a search
// finds.
//
//    ModelChoice choice{.model = "meta-llama/Llama-3.1-70B", .gpus = 256, .gpu = "h100"};
//    const Scenario scenario = found_scenario(choice, {});
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"

namespace trainyard {

struct ModelChoice {
  std::string model;  // empty: the run has a scenario file
  std::int64_t gpus = 8;
  std::string gpu = "h100";
  std::int64_t sequence = 0;  // 0: the usual one
  std::int64_t batch = 0;     // 0: the usual one
};
void add_model_options(CLI::App& command, ModelChoice& choice);

// `changes` apply to all layouts. Throws InputError for an unknown model or GPU, and RunError where
// nothing fits.
[[nodiscard]] Scenario found_scenario(const ModelChoice& choice,
                                      const std::vector<Override>& changes);

}  // namespace trainyard
