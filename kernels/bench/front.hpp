// Command lines of both profilers. One file parses them, because CLI11 is slow to compile, and
// returns plain values.
//
//    const auto read = read_kernel_options(count, values, "trainyard-profile 0.1.0");
//    if (read.exit_code) return *read.exit_code;   // --help, --version or wrong usage
//    const std::vector<Task> tasks = grid_tasks(read.options.grid);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/bench/grid.hpp"

namespace trainyard::bench {

template <class Options>
struct CommandLine {
  Options options;
  std::optional<int> exit_code;
};

// Options of trainyard-profile.
struct KernelOptions {
  std::string out;
  std::vector<std::string> only;
  Grid grid = Grid::Default;
  std::vector<std::string> shapes;
  std::string shapes_file;
  bool list = false;
};
[[nodiscard]] CommandLine<KernelOptions> read_kernel_options(int count, char** values,
                                                             const std::string& version);

// Options of trainyard-profile-nccl.
struct CollectiveOptions {
  std::string out, least = "8", most = "8GiB", id_file;
  std::int64_t factor = 2;
  std::vector<std::string> operations, algorithms, protocols;
};
// Throws InputError for invalid sizes.
[[nodiscard]] CommandLine<CollectiveOptions> read_collective_options(int count, char** values);

}  // namespace trainyard::bench
