#include "scenarios/simulate/workload_files.hpp"

#include <fmt/format.h>

#include <utility>

#include "scenarios/simulate/lowered.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/workload/workload_json.hpp"
#include "topologies/cluster_reader.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

ClusterSpec read_cluster_file(const std::filesystem::path& file) {
  JsonFile json = JsonFile::read(file);
  JsonObject root = json.root();
  const bool in_scenario = root.has("cluster");
  if (in_scenario) {
    for (const auto& [key, value] : json.document().items())
      if (key != "cluster") root.ignore(key);
  }
  ClusterSpec spec = read_cluster(in_scenario ? root.object("cluster") : root, file.parent_path());
  if (!json.has_problems()) check_cluster_builds(json, in_scenario ? "/cluster" : "", spec);
  json.finish();
  return spec;
}

namespace {

// `place` names the source of the cluster in messages.
WorkloadRun question_of(const std::filesystem::path& workload, ClusterSpec cluster,
                        const std::string& place) {
  WorkloadRun question;
  question.title = fmt::format("Workload {}", workload.filename().string());
  question.cluster = std::move(cluster);
  question.workload = read_workload(workload);
  const std::uint32_t gpus = gpu_count(question.cluster);
  for (std::size_t rank = 0; rank < question.workload.ranks.size(); ++rank) {
    const std::uint32_t gpu = question.workload.ranks[rank].gpu;
    if (gpu < gpus) continue;
    throw InputError(
        Problem{.file = workload.string(),
                .pointer = fmt::format("/ranks/{}/gpu", rank),
                .problem = fmt::format("{} is not a GPU of the cluster, which has {}", gpu, gpus),
                .hint = fmt::format("use 0 to {}, or more nodes in {}", gpus - 1, place)});
  }
  return question;
}

}  // namespace

WorkloadRun read_workload_question(const std::filesystem::path& workload,
                                   const std::filesystem::path& cluster) {
  return question_of(workload, read_cluster_file(cluster), cluster.string());
}

WorkloadRun read_workload_question(const std::filesystem::path& workload,
                                   const Scenario& scenario) {
  WorkloadRun question = question_of(workload, scenario.cluster, scenario.file);
  if (scenario.collective_model == CollectiveModel::Stepwise)
    question.workload = with_collective_model(scenario, std::move(question.workload),
                                              *shared_cluster(question.cluster));
  question.engine = scenario.engine;
  question.software = scenario;
  return question;
}

}  // namespace trainyard
