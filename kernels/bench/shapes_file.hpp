// A list of shapes to measure. `trainyard run --missing` writes it, and `trainyard-profile
// --shapes` measures it.
//
//    write_file("shapes.json", shapes_to_json({{kernel, "interpolated", 0.12}}, "h100").dump(1));
//    const std::vector<Task> tasks = read_shapes("shapes.json");
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/bench/task.hpp"

namespace trainyard::bench {

struct WantedShape {
  Kernel kernel;
  std::string known_how;  // "interpolated", "extrapolated"; empty: unknown
  double share = 0.0;     // share of the busy time of the run that lists it
};

[[nodiscard]] nlohmann::ordered_json shapes_to_json(const std::vector<WantedShape>& shapes,
                                                    const std::string& gpu);

// The task that measures a kernel: the kernel itself or, for a memory-bound one, our kernel of that
// kind with as nearly the same bytes as whole rows allow.
[[nodiscard]] Task task_for(const Kernel& kernel);

// The tasks of a file, each once, in the order of the file. Throws InputError for another schema or
// version.
[[nodiscard]] std::vector<Task> read_shapes(const std::filesystem::path& file);

}  // namespace trainyard::bench
