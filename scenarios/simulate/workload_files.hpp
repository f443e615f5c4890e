// A workload file and a cluster file, as one question.
#pragma once

#include <filesystem>

#include "scenarios/simulate/simulate.hpp"

namespace trainyard {

// `cluster`: a file that holds a scenario's "cluster" object, as `trainyard show topology --json`
// prints it. Throws InputError: for either file, or when the workload uses GPUs the cluster does
// not have.
[[nodiscard]] WorkloadQuestion read_workload_question(const std::filesystem::path& workload,
                                                      const std::filesystem::path& cluster);

// The same with a scenario in place of the cluster's file: its cluster, engine and software hold.
[[nodiscard]] WorkloadQuestion read_workload_question(const std::filesystem::path& workload,
                                                      const Scenario& scenario);

// A scenario's "cluster" object, from a file of its own or from the scenario's.
[[nodiscard]] ClusterSpec read_cluster_file(const std::filesystem::path& file);

}  // namespace trainyard
