// Reads the size of a job of Ray Train from the ScalingConfig in its Python script, as text.
//
//    const auto config = ray_config(text, "train.py", {});
//    config->gpus;     // 32
//    config->source;   // "ScalingConfig(num_workers=NODES * 8) (line 11)"
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainyard {

struct RayConfig {
  std::int64_t gpus = 0;  // workers times the GPUs of each
  std::string source = {};
  std::string gpu = {};  // accelerator_type; empty: not named
  std::vector<std::string> assumed = {};
};

// Returns nothing where the text has no ScalingConfig. Names that the script sets at the beginning
// of a line, and those of `defined`, may stand for numbers. Throws InputError for a number that is
// computed when the script runs.
[[nodiscard]] std::optional<RayConfig> ray_config(
    const std::string& text, const std::string& file,
    const std::map<std::string, std::string>& defined);

}  // namespace trainyard
