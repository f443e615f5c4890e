// Shapes that a simulation would like to be measured: what `trainyard run --missing` writes and
// `trainyard-profile --shapes` measures.
//
//   write_file("shapes.json", shapes_to_json({{kernel, "interpolated", 0.12}}, "h100").dump(1));
//   for (const Task& task : read_shapes("shapes.json")) ...
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/bench/task.hpp"

namespace trainyard::bench {

struct WantedShape {
  Kernel kernel;
  std::string known_how;  // "interpolated", "extrapolated"; empty: not said
  double share = 0.0;     // of the busy time of the run that asks
};

[[nodiscard]] nlohmann::ordered_json shapes_to_json(const std::vector<WantedShape>& shapes,
                                                    const std::string& gpu);

// The task that measures a kernel: itself, or of a memory-bound one our kernel of that kind with as
// nearly as many bytes as whole rows allow.
[[nodiscard]] Task task_for(const Kernel& kernel);

// The tasks of a file, each once, in its order. Throws InputError for another schema or version.
[[nodiscard]] std::vector<Task> read_shapes(const std::filesystem::path& file);

}  // namespace trainyard::bench
