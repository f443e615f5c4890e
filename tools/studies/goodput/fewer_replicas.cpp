#include "tools/studies/goodput/fewer_replicas.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/rank_groups.hpp"
#include "sim/base/error.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kNode = "node ";

// The nodes that stay, with their new numbers.
class KeptNodes {
 public:
  // A node stays if it holds a rank of one of the first `left` replicas.
  KeptNodes(const Scenario& scenario, std::int64_t left)
      : gpus_(scenario.cluster.node.gpus), number_(scenario.cluster.nodes) {
    const Parallelism& sizes = scenario.plan.parallelism;
    const RankGrid grid(sizes);
    const auto ranks = static_cast<RankId>(grid.world() * scenario.plan.workers());
    std::vector<bool> stays(number_.size(), false);
    for (RankId rank = 0; rank < ranks; ++rank)
      if (grid.position(rank).data < left) stays[gpu_of_rank(sizes, rank) / gpus_] = true;
    for (std::size_t node = 0; node < stays.size(); ++node)
      if (stays[node]) number_[node] = count_++;
  }

  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] std::optional<std::uint32_t> node(std::size_t before) const {
    return before < number_.size() ? number_[before] : std::nullopt;
  }
  // REQUIRES: the node of the GPU stays.
  [[nodiscard]] std::uint32_t gpu(std::uint32_t before) const {
    return number_[before / gpus_].value() * gpus_ + before % gpus_;
  }
  // "node 7 gpu 0" under its new number; other names are the same. Nothing for a node that leaves.
  [[nodiscard]] std::optional<std::string> name(const std::string& before) const {
    if (!before.starts_with(kNode)) return before;
    std::size_t number = 0;
    const char* const digits = before.data() + kNode.size();
    const char* const end = before.data() + before.size();
    const auto [rest, error] = std::from_chars(digits, end, number);
    if (error != std::errc{}) return before;
    const std::optional<std::uint32_t> now = node(number);
    if (!now) return std::nullopt;
    return fmt::format("{}{}{}", kNode, *now, std::string(rest, end));
  }

 private:
  std::uint32_t gpus_;
  std::vector<std::optional<std::uint32_t>> number_;  // by node; nothing: it leaves
  std::uint32_t count_ = 0;
};

Json others_within(const Json& others, const KeptNodes& kept) {
  Json all = Json::array();
  for (Json entry : others) {
    Json nodes = Json::array();
    for (const Json& node : entry["nodes"])
      if (const auto now = kept.node(node.get<std::size_t>())) nodes.push_back(*now);
    if (nodes.empty()) continue;
    entry["nodes"] = nodes;
    all.push_back(std::move(entry));
  }
  return all;
}

// The GPU of every rank of the smaller job: that of the same rank before.
Json placement_within(const Parallelism& before, std::int64_t left, const KeptNodes& kept) {
  Parallelism smaller = before;
  smaller.data = left;
  const RankGrid grid(before);
  const RankGrid now(smaller);
  Json placement = Json::array();
  for (RankId rank = 0; rank < static_cast<RankId>(now.world()); ++rank)
    placement.push_back(kept.gpu(gpu_of_rank(before, grid.rank(now.position(rank)))));
  return placement;
}

// Replaces the name of a device, and returns whether the smaller cluster has it.
bool rename_device(Json& part, const char* key, const KeptNodes& kept,
                   const std::set<std::string>& names) {
  if (!part.contains(key)) return true;
  const std::optional<std::string> name = kept.name(part[key].get<std::string>());
  if (!name || !names.contains(*name)) return false;
  part[key] = *name;
  return true;
}

Json faults_within(const Json& faults, const KeptNodes& kept, const Scenario& smaller) {
  const auto cluster = shared_cluster(smaller.cluster);
  std::set<std::string> names;
  for (std::uint32_t device = 0; device < cluster->device_count(); ++device)
    names.insert(cluster->name(DeviceId{device}));
  Json all = Json::array();
  for (Json fault : faults) {
    bool stays = rename_device(fault, "device", kept, names);
    if (fault.contains("link"))
      stays = stays && rename_device(fault["link"], "from", kept, names) &&
              rename_device(fault["link"], "to", kept, names);
    if (stays) all.push_back(std::move(fault));
  }
  return all;
}

// Whether the scenario says of particular nodes what they are, hold or suffer.
bool names_nodes(const Scenario& scenario) {
  const auto is_node = [](const std::string& device) { return device.starts_with(kNode); };
  return !scenario.cluster.others.empty() || !scenario.plan.parallelism.placement.empty() ||
         std::ranges::any_of(scenario.cluster.faults, [&](const Fault& fault) {
           return is_node(fault.device) || is_node(fault.from) || is_node(fault.to);
         });
}

// Leaves out the nodes that leave, wherever the document names nodes.
Scenario without_nodes(const Scenario& scenario, std::int64_t left, Json document) {
  const KeptNodes kept(scenario, left);
  Json& cluster = document["cluster"];
  if (kept.count() != cluster["nodes"].get<std::uint32_t>())
    throw InputError(Problem{
        .file = scenario.file,
        .pointer = "/reliability/policy",
        .problem =
            fmt::format("without {} of {} replicas {} of {} nodes are left, which is not "
                        "their share: nodes hold ranks of several replicas",
                        scenario.plan.parallelism.data - left, scenario.plan.parallelism.data,
                        kept.count(), scenario.cluster.nodes),
        .hint = "place each replica on nodes of its own, or take another policy"});
  if (cluster.contains("others")) cluster["others"] = others_within(cluster["others"], kept);
  Json& parallelism = document["parallelism"];
  if (!scenario.plan.parallelism.placement.empty())
    parallelism["placement"] = placement_within(scenario.plan.parallelism, left, kept);
  const Json faults = cluster.value("faults", Json::array());
  cluster.erase("faults");
  Scenario smaller = read_scenario_document(scenario.file, document);
  if (faults.empty()) return smaller;
  cluster["faults"] = faults_within(faults, kept, smaller);
  return read_scenario_document(scenario.file, document);
}

}  // namespace

// The reader checks the smaller scenario and derives what depends on its sizes. It would refuse the
// reliability block of an elastic job with one replica left.
Scenario with_fewer_replicas(const Scenario& scenario, std::int64_t lost) {
  if (lost == 0) return scenario;
  const Parallelism& sizes = scenario.plan.parallelism;
  const std::int64_t left = sizes.data - lost;
  Json document = resolved(scenario);
  document.erase("reliability");
  document["parallelism"]["data"] = left;
  document["parallelism"].erase("replica_microbatches");  // which are of all replicas
  document["training"]["global_batch_size"] =
      scenario.plan.training.global_batch_size / sizes.data * left;
  document["cluster"]["nodes"] =
      static_cast<std::int64_t>(scenario.cluster.nodes) * left / sizes.data;
  if (!scenario.cluster.custom && names_nodes(scenario))
    return without_nodes(scenario, left, std::move(document));
  return read_scenario_document(scenario.file, document);
}

}  // namespace trainyard
