// Rules between a scenario and its cluster: the number of GPUs, the precisions that the GPUs
// support, parameter servers, and offloading to host memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernels/gpu.hpp"
#include "scenarios/reader/checks.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

void add_node(const NodeSpec& node, const std::string& pointer, std::vector<PlacedGpu>& gpus) {
  gpus.push_back({pointer + "/gpu", node.gpu});
  for (std::size_t i = 0; i < node.other_gpus.size(); ++i)
    gpus.push_back(
        {fmt::format("{}/other_gpus/{}/gpu", pointer, i), node.other_gpus[i].kind.profile});
}

}  // namespace

std::vector<PlacedGpu> gpus_of(const ClusterSpec& cluster) {
  std::vector<PlacedGpu> gpus;
  add_node(cluster.node, cluster.custom ? "/cluster" : "/cluster/node", gpus);
  for (std::size_t i = 0; i < cluster.others.size(); ++i)
    add_node(cluster.others[i].node, fmt::format("/cluster/others/{}/node", i), gpus);
  if (cluster.custom)
    for (const GpuKind& kind : cluster.custom->kinds)
      gpus.push_back({"/cluster/devices", kind.profile});
  return gpus;
}

namespace {

// Returns the longest prefix of the pointer that exists in this file, because a node given by name
// has no fields here.
std::string written(JsonFile& file, std::string pointer) {
  while (!pointer.empty() &&
         !file.document().contains(nlohmann::ordered_json::json_pointer(pointer)))
    pointer.resize(pointer.rfind('/'));
  return pointer;
}

// Problems inside a profile are reported with the profile's file. A profile that cannot be opened
// is reported at the field that names it.
std::optional<GpuSheet> sheet_of(JsonFile& file, const PlacedGpu& gpu) {
  try {
    return load_gpu_sheet(gpu.profile);
  } catch (const InputError& error) {
    for (Problem problem : error.problems()) {
      const bool own_file = !problem.pointer.empty();  // a problem inside the profile
      if (!own_file) {
        if (problem.file.empty())
          problem.hint += "; or the path of your own profile, see kernels/README.md";
        else
          problem.problem = fmt::format("\"{}\": {}", problem.file, problem.problem);
        problem.file = file.name();
        problem.pointer = written(file, gpu.pointer);
      }
      file.report(std::vector{problem});
    }
    return {};
  }
}

// Returns the precisions for which the GPU's data sheet has a rate.
std::vector<std::string_view> known_types(const GpuSheet& sheet) {
  std::vector<std::string_view> names;
  for (const DataType dtype :
       {DataType::Fp32, DataType::Tf32, DataType::Bf16, DataType::Fp16, DataType::Fp8})
    if (sheet.peak(dtype).value() > 0.0) names.push_back(to_string(dtype));
  return names;
}

void check_type(JsonFile& file, const GpuSheet& sheet, std::optional<DataType> dtype,
                const char* pointer) {
  if (!dtype || sheet.peak(*dtype).value() > 0.0) return;
  file.report(
      pointer, fmt::format("{} has no {}", sheet.title, to_string(*dtype)),
      fmt::format("choose a precision that it has: {}", fmt::join(known_types(sheet), ", ")));
}

void check_types(JsonFile& file, const GpuSheet& sheet, const TrainingPlan& plan) {
  constexpr const char* kRecipe = "/training/recipe";
  const Recipe& recipe = plan.recipe;
  check_type(file, sheet, plan.training.precision, "/training/precision");
  check_type(file, sheet, recipe.gemms, kRecipe);
  if (recipe.attention != recipe.gemms) check_type(file, sheet, recipe.attention, kRecipe);
  if (!recipe.four_bit_gemms || sheet.fp4.value() > 0.0) return;
  const bool eight = sheet.fp8.value() > 0.0;
  file.report(kRecipe, sheet.title + " has no 4-bit GEMMs",
              eight ? "choose a recipe with 8-bit GEMMs, such as fp8_cached"
                    : "choose a recipe of the training's own precision, such as standard");
}

void check_offloaded_weights(JsonFile& file, const TrainingPlan& plan) {
  const auto refuse = [&](const std::string& problem, const std::string& hint) {
    file.report("/offload/weights", problem, hint);
  };
  const Parallelism& p = plan.parallelism;
  if (p.zero_stage == 1 || p.zero_stage == 2)
    refuse(fmt::format("zero_stage {} gathers new weights among the GPUs, which keep them",
                       p.zero_stage),
           "set /parallelism/zero_stage to 0 or 3, or weights to false");
  if (p.zero_stage == 3 && p.context * p.shard_size() == 1)
    refuse("zero_stage 3 fetches shards, and one rank has no shards",
           "set /parallelism/zero_stage to 0, or shard to more than 1");
}

}  // namespace

// The product of the sizes must be the number of GPUs. The hint names the one change of nodes or
// replicas that achieves it.
void check_gpus(const Check& check) {
  if (!check.cluster || !check.parallelism || !check.file.is_sound("/local_steps")) return;
  const Parallelism& p = check.sizes();
  const ClusterSpec& cluster = check.scenario.cluster;
  const std::int64_t has = gpu_count(cluster);
  const std::int64_t needs = check.scenario.plan.world();
  if (has == needs) return;
  const std::int64_t workers = check.scenario.plan.workers();
  const std::int64_t replica = needs / p.data;
  std::string hint = "change the cluster, or one of these sizes";
  if (!cluster.custom && needs % cluster.node.gpus == 0) {
    hint = fmt::format("set /cluster/nodes to {}", needs / cluster.node.gpus);
    if (has % replica == 0) hint += fmt::format(", or /parallelism/data to {}", has / replica);
  } else if (has % replica == 0) {
    hint = fmt::format("set /parallelism/data to {}", has / replica);
  }
  check.file.report(
      "/parallelism",
      fmt::format(
          "needs {} GPUs ({} x data {}{}) but the cluster has {}", needs,
          p.tensor_per_stage.empty()
              ? fmt::format("tensor {} x context {} x pipeline {}", p.tensor, p.context, p.pipeline)
              : fmt::format("(tensor {}) x context {}", fmt::join(p.tensor_per_stage, " + "),
                            p.context),
          p.data, workers > 1 ? fmt::format(" x workers {}", workers) : "", has),
      hint);
}

// A placement is a permutation of all GPUs. A wrong number of GPUs has been reported by
// check_gpus().
void check_placement(const Check& check) {
  if (!check.cluster || !check.parallelism || check.sizes().placement.empty()) return;
  const std::vector<std::int64_t>& placement = check.sizes().placement;
  const std::int64_t world = check.scenario.plan.world();
  if (static_cast<std::int64_t>(gpu_count(check.scenario.cluster)) != world) return;
  std::vector<std::int64_t> sorted = placement;
  std::sort(sorted.begin(), sorted.end());
  std::string problem;
  if (static_cast<std::int64_t>(placement.size()) != world) {
    problem = fmt::format("names {} GPUs for {} ranks", placement.size(), world);
  } else if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
             twice != sorted.end()) {
    problem = fmt::format("gives GPU {} to two ranks", *twice);
  } else if (sorted.back() >= world) {
    problem = fmt::format("names GPU {}, the last is {}", sorted.back(), world - 1);
  } else {
    return;
  }
  check.file.report("/parallelism/placement", problem,
                    fmt::format("list each of 0 to {} once, in the order of the ranks", world - 1));
}

void check_gpu_profiles(const Check& check) {
  std::set<std::string> seen;
  for (const PlacedGpu& gpu : gpus_of(check.scenario.cluster)) {
    if (!seen.insert(gpu.profile).second) continue;
    const std::optional<GpuSheet> sheet = sheet_of(check.file, gpu);
    if (sheet && check.training) check_types(check.file, *sheet, check.scenario.plan);
  }
}

void check_servers(const Check& check) {
  const TrainingPlan& plan = check.scenario.plan;
  if (!check.file.is_sound("/parameter_servers") || plan.servers.servers == 0 || !check.parallelism)
    return;
  const Parallelism& p = plan.parallelism;
  const auto refuse = [&](const char* field, const std::string& problem, const std::string& hint) {
    check.file.report(std::string("/parameter_servers/") + field, problem, hint);
  };
  if (p.tensor * p.context * p.pipeline > 1 || p.zero_stage > 0)
    refuse("servers", "each worker holds the whole model, so nothing can be sharded",
           "leave all of /parallelism but data out");
  if (!p.placement.empty())
    refuse("servers", "worker i is on GPU i, the servers on the first GPUs or behind the workers",
           "leave /parallelism/placement out");
  if (!plan.servers.dedicated && plan.servers.servers > p.data)
    refuse("servers",
           fmt::format("{} servers on the GPUs of {} workers", plan.servers.servers, p.data),
           "set dedicated to true, or have fewer");
  if (check.model && plan.architecture.has_experts())
    refuse("servers", "experts that servers hold are not modelled", "take a dense model");
  if (plan.offload.any())
    refuse("servers", "is not modelled together with /offload", "leave one of them out");
  if (check.scenario.collective_model == CollectiveModel::Stepwise)
    refuse("servers", "messages are all there is: nothing can be played step by step",
           "set /collective_model to \"fluid\"");
}

void check_local_steps(const Check& check) {
  const TrainingPlan& plan = check.scenario.plan;
  if (!check.file.is_sound("/local_steps") || !plan.local_steps.used()) return;
  const auto refuse = [&](const char* pointer, const std::string& problem) {
    check.file.report(pointer, problem + " is not modelled together with /local_steps",
                      "leave one of them out");
  };
  if (plan.servers.servers > 0) refuse("/parameter_servers", "traffic with servers");
  if (!plan.parallelism.operator_devices.empty())
    refuse("/parallelism/operator_devices", "a model split by hand");
  if (plan.offload.any()) refuse("/offload", "state in the memory of the hosts");
  if (plan.training.lora_rank > 0) refuse("/training/lora_rank", "an exchange of adapters");
  if (check.scenario.collective_model == CollectiveModel::Stepwise)
    refuse("/collective_model", "a play message by message");
  if (check.scenario.reliability) refuse("/reliability", "a failure of one worker");
}

void check_offload(const Check& check) {
  const TrainingPlan& plan = check.scenario.plan;
  if (!check.file.is_sound("/offload") || !plan.offload.any()) return;
  if (check.file.is_sound("/cluster") && plan.offload.optimizer == OffloadedOptimizer::Cpu &&
      plan.host.bandwidth.value() <= 0.0)
    check.file.report(
        "/offload/optimizer",
        fmt::format("the memory bandwidth of {}'s CPUs is unknown, and it sets their speed",
                    check.scenario.cluster.node.name),
        R"(give the node "host_memory": {"usable", "bandwidth"}, or choose "fetch")");
  if (plan.offload.optimizer != OffloadedOptimizer::None && plan.optimizer.orthogonalisations > 0)
    check.file.report(
        "/offload/optimizer",
        fmt::format("{} makes whole matrices orthogonal, which pieces of state cannot",
                    plan.training.optimizer),
        "set it to \"none\", or take another optimizer");
  if (check.parallelism && plan.offload.weights) check_offloaded_weights(check.file, plan);
}

}  // namespace trainyard
