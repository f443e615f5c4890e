// Reads a workload file and a cluster file for a simulation.
#pragma once

#include <filesystem>

#include "scenarios/simulate/simulate.hpp"

namespace trainyard {

// `cluster` is a file with a scenario's "cluster" object, as `trainyard show topology --format
// json` prints it. Throws InputError for either file, and when the workload uses GPUs that the
// cluster does not have.
[[nodiscard]] WorkloadRun read_workload_question(const std::filesystem::path& workload,
                                                 const std::filesystem::path& cluster);

// Does the same with a scenario instead of the cluster file: its cluster, engine and software
// apply.
[[nodiscard]] WorkloadRun read_workload_question(const std::filesystem::path& workload,
                                                 const Scenario& scenario);

// Reads a scenario's "cluster" object from a separate file or from a scenario file.
[[nodiscard]] ClusterSpec read_cluster_file(const std::filesystem::path& file);

}  // namespace trainyard
