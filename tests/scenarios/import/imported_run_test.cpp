// Every cluster that an importer makes runs a small step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "scenarios/import/from_topo_matrix.hpp"
#include "scenarios/import/ib_cluster.hpp"
#include "scenarios/import/job_shape.hpp"
#include "scenarios/import/nccl_xml.hpp"
#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/files.hpp"
#include "topologies/custom_cluster.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

std::string shipped(const std::string& name) {
  return read_file(std::string(TRAINYARD_SOURCE_DIRECTORY) + "/tests/scenarios/import/" + name);
}

// Returns the time of a step of two layers with a replica on every GPU.
double step_time(const Json& cluster, std::int64_t gpus) {
  const Json scenario = {
      {"model",
       {{"layers", 2},
        {"hidden", 1024},
        {"heads", 8},
        {"ffn", 4096},
        {"vocab", 8192},
        {"max_positions", 1024}}},
      {"cluster", cluster},
      {"parallelism", {{"data", gpus}}},
      {"training",
       {{"sequence_length", 1024}, {"micro_batch_size", 1}, {"global_batch_size", gpus}}}};
  return simulate(read_scenario_document("imported.json", scenario)).timeline.makespan_s;
}

Json two_servers(const ImportedNode& node) {
  return to_custom_json(imported_cluster(node, {.nodes = 2, .fabric = "rail_optimized"}));
}

// Do servers that NCCL and nvidia-smi describe run a step?
TEST(ImportedRun, ServersRunAStep) {
  int runs = 0;
  for (const auto& [file, gpu, gpus] :
       {std::tuple("h100_x8.xml", "", 16), std::tuple("a100_x8.xml", "", 16),
        std::tuple("virtual_switches_a100.xml", "a100_80gb", 16),
        std::tuple("numa_groups_h100.xml", "h100", 8)}) {
    SCOPED_TRACE(file);
    const ImportedNode node =
        from_nccl_xml(shipped(std::string("topologies/") + file), file, {.gpu = gpu});
    EXPECT_GT(step_time(two_servers(node), gpus), 1e-4);
    ++runs;
  }
  for (const auto& [file, gpu, gpus] : {std::tuple("h100_x8_topo_m.txt", "h100", 16),
                                        std::tuple("gb200_tray_topo_m.txt", "gb200", 8),
                                        std::tuple("a100_x4_topo_m.txt", "a100_80gb", 8)}) {
    SCOPED_TRACE(file);
    const ImportedNode node =
        from_topo_matrix(shipped(std::string("topologies/") + file), {.file = file, .gpu = gpu});
    EXPECT_GT(step_time(two_servers(node), gpus), 1e-4);
    ++runs;
  }
  EXPECT_EQ(runs, 7);
}

// Do fabrics run a step, and is one with a missing cable not faster?
TEST(ImportedRun, FabricsRunAStep) {
  std::map<std::string, double> times;
  for (const auto& [file, node, gpus] :
       {std::tuple("rails", "dgx_h100", 32), std::tuple("missing_cable", "dgx_h100", 32),
        std::tuple("fat_tree_iblinkinfo", "dgx_h100", 64),
        std::tuple("fat_tree_iblinkinfo_l", "dgx_h100", 64),
        std::tuple("single_switch", "dgx_a100_80gb", 16)}) {
    SCOPED_TRACE(file);
    const std::string name = std::string("ib_fabric/") + file + ".txt";
    const IbCluster made =
        cluster_of_ib_fabric(read_ib_fabric(shipped(name), name), {.node = node});
    times[file] = step_time(made.cluster, gpus);
    EXPECT_GT(times[file], 1e-4);
  }
  EXPECT_EQ(times.size(), 5U);
  EXPECT_GE(times["missing_cable"], times["rails"] * (1.0 - 1e-9));
  EXPECT_DOUBLE_EQ(times["fat_tree_iblinkinfo"], times["fat_tree_iblinkinfo_l"]);
}

// Do the clusters of launch scripts run a step with a replica for each process?
TEST(ImportedRun, LaunchesRunAStep) {
  int runs = 0;
  for (const auto& [file, gpus] :
       {std::pair("slurm_torchrun.sh", 32), std::pair("slurm_srun.sh", 16),
        std::pair("slurm_container.sh", 128), std::pair("torchrun_elastic.sh", 32),
        std::pair("mpirun_hosts.sh", 16), std::pair("mpirun_ppr.sh", 12),
        std::pair("horovodrun.sh", 32), std::pair("deepspeed.sh", 8),
        std::pair("deepspeed_include.sh", 8), std::pair("accelerate.sh", 16),
        std::pair("ray_train.py", 32), std::pair("header_only.sh", 128)}) {
    SCOPED_TRACE(file);
    const JobShape shape = job_shape(shipped(std::string("launch/") + file), file);
    const LaunchedCluster launched =
        launched_cluster({.node = "dgx_h100"}, sizes_of(shape, file), file);
    EXPECT_EQ(launched.world, gpus);
    EXPECT_GT(step_time(launched.section, gpus), 1e-4);
    ++runs;
  }
  EXPECT_EQ(runs, 12);
}

}  // namespace
}  // namespace trainyard
