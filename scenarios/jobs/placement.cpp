#include "scenarios/jobs/placement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "sim/base/error.hpp"
#include "sim/base/field.hpp"
#include "sim/base/random.hpp"
#include "sim/base/words.hpp"
#include "sim/workload/operation_list.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;
using P = PlacementSpec;

constexpr std::string_view kPlacementForms =
    R"("packed", "spread", {"fragmented": SEED}, {"leaves": [0]}, {"nodes": [0, 1]}, )"
    R"({"gpus": [0, 1]} or {"with": JOB})";

// A placement without a value of its own is a word; any other is an object with one field, which
// has the name of the kind.
constexpr Words<PlacementKind, 2> kPlacementWords{
    {{PlacementKind::Packed, "packed"}, {PlacementKind::Spread, "spread"}}};
constexpr Words<PlacementKind, 5> kPlacementKeys{{{PlacementKind::Fragmented, "fragmented"},
                                                  {PlacementKind::Leaves, "leaves"},
                                                  {PlacementKind::Nodes, "nodes"},
                                                  {PlacementKind::Gpus, "gpus"},
                                                  {PlacementKind::With, "with"}}};

// Reads a list of different whole numbers.
void read_numbers(JsonObject& object, std::string_view key, P& placement) {
  if (!object.has(key)) return;
  const Json& list = object.raw(key);
  std::set<std::uint32_t> seen;
  for (const Json& one : list) {
    if (list.is_array() && one.is_number_unsigned() && one.get<std::uint64_t>() < kNone &&
        seen.insert(one.get<std::uint32_t>()).second) {
      placement.chosen.push_back(one.get<std::uint32_t>());
      continue;
    }
    object.report(key, fmt::format("{} is not a list of different numbers", shown(list)),
                  "count from 0, such as [0, 2]");
    return;
  }
  if (placement.chosen.empty()) object.report(key, "lists nothing", "name at least one");
}

Json numbers_schema(const P&) {
  const Json number{{"type", "integer"}, {"minimum", 0}, {"maximum", kNone - 1}};
  return {{"type", "array"}, {"items", number}, {"minItems", 1}, {"uniqueItems", true}};
}

constexpr Own<P> kNumbers{.read = read_numbers, .schema = numbers_schema};

const Field<P> kPlacement[] = {
    {"fragmented", "free nodes in a random order, which this seed draws", Seed<P>{&P::seed}},
    {"leaves",
     "free nodes under these leaves, in order; nodes whose NICs are connected to the same switches "
     "are under one leaf",
     kNumbers},
    {"nodes", "these nodes, in order; numbered from 0", kNumbers},
    {"gpus", "these GPUs, in order; numbered from 0 over all nodes", kNumbers},
    {"with", "traffic alone: the GPUs of the job of this name", Text<P>{&P::job}},
};

P read_object(JsonObject object) {
  std::vector<std::string_view> given;
  for (const Field<P>& row : kPlacement)
    if (object.has(row.key)) given.push_back(row.key);
  if (given.size() != 1) {
    for (const std::string_view key : given) object.ignore(key);
    object.report("",
                  given.empty() ? "says nothing of where the job runs"
                                : fmt::format("says it twice: {}", fmt::join(given, ", ")),
                  fmt::format("write one of {}", kPlacementForms));
    return {};
  }
  const PlacementKind kind = value_of(kPlacementKeys, given.front()).value();
  return read_fields<P>(object, kPlacement, {.kind = kind});
}

}  // namespace

PlacementSpec read_placement(JsonObject& job, std::string_view key) {
  if (!job.has(key)) return {};
  const Json& value = job.raw(key);
  if (value.is_object()) return read_object(job.object(key));
  if (value.is_string())
    if (const auto kind = value_of(kPlacementWords, value.get<std::string>()))
      return {.kind = *kind};
  job.report(key, fmt::format("{} is no placement", shown(value)),
             fmt::format("write one of {}", kPlacementForms));
  return {};
}

Json placement_schema() {
  const Json word{
      {"description", "packed: free nodes in order; spread: free nodes under each leaf in turn"},
      {"type", "string"},
      {"enum", all_words<kPlacementWords>()}};
  Json object = schema_of_fields<P>(kPlacement, {});
  object["minProperties"] = 1;
  object["maxProperties"] = 1;
  return {{"anyOf", Json::array({word, std::move(object)})},
          {"default", word_for(kPlacementWords, PlacementSpec{}.kind)}};
}

std::string to_text(const PlacementSpec& placement) {
  switch (placement.kind) {
    case PlacementKind::Packed:
      return "packed";
    case PlacementKind::Spread:
      return "spread";
    case PlacementKind::Fragmented:
      return fmt::format("fragmented, seed {}", placement.seed);
    case PlacementKind::Leaves:
      return fmt::format("leaves {}", fmt::join(placement.chosen, ", "));
    case PlacementKind::Nodes:
      return fmt::format("nodes {}", fmt::join(placement.chosen, ", "));
    case PlacementKind::Gpus:
      return fmt::format("GPUs {}", fmt::join(placement.chosen, ", "));
    case PlacementKind::With:
      return fmt::format("with {}", placement.job);
  }
  return {};
}

std::vector<std::uint32_t> leaves_of_nodes(const Cluster& cluster) {
  const std::uint32_t nodes = cluster.facts().nodes;
  std::vector<std::uint32_t> leaves(nodes, 0);
  if (cluster.nic_of_gpu().empty()) return leaves;
  std::map<std::set<DeviceId>, std::uint32_t> numbers;
  for (std::uint32_t node = 0; node < nodes; ++node) {
    std::set<DeviceId> switches;
    const std::uint32_t gpus = cluster.facts().gpus_per_node;
    for (std::uint32_t gpu = node * gpus; gpu < (node + 1) * gpus; ++gpu)
      for (const Link link : cluster.links_from(cluster.nic_of_gpu()[gpu]))
        if (link.kind == LinkKind::NicPort) switches.insert(link.to);
    leaves[node] =
        numbers.try_emplace(switches, static_cast<std::uint32_t>(numbers.size())).first->second;
  }
  return leaves;
}

FreeGpus::FreeGpus(const Cluster& cluster)
    : cluster_(cluster), leaf_of_(leaves_of_nodes(cluster)), taken_(cluster.gpus().size(), false) {}

std::vector<std::uint32_t> FreeGpus::free_of_node(std::uint32_t node) const {
  const std::uint32_t gpus = cluster_.facts().gpus_per_node;
  std::vector<std::uint32_t> free;
  for (std::uint32_t gpu = node * gpus; gpu < (node + 1) * gpus; ++gpu)
    if (!taken_[gpu]) free.push_back(gpu);
  return free;
}

// Returns all nodes in the order in which the placement tries them.
std::vector<std::uint32_t> FreeGpus::node_order(const PlacementSpec& placement) const {
  std::vector<std::uint32_t> nodes(leaf_of_.size());
  std::iota(nodes.begin(), nodes.end(), 0U);
  if (placement.kind == PlacementKind::Fragmented)
    return Random(placement.seed)
        .split("placement")
        .permutation(static_cast<std::uint32_t>(nodes.size()));
  if (placement.kind == PlacementKind::Spread) {
    // The place of a node among the wholly free nodes of its leaf comes first, then its leaf.
    std::vector<std::uint32_t> turn(nodes.size(), kNone);
    std::map<std::uint32_t, std::uint32_t> next;
    for (const std::uint32_t node : nodes)
      if (free_of_node(node).size() == cluster_.facts().gpus_per_node)
        turn[node] = next[leaf_of_[node]]++;
    std::ranges::stable_sort(nodes, [&](std::uint32_t a, std::uint32_t b) {
      return std::pair{turn[a], leaf_of_[a]} < std::pair{turn[b], leaf_of_[b]};
    });
  }
  if (placement.kind == PlacementKind::Leaves) {
    const auto place = [&](std::uint32_t node) {
      return std::ranges::find(placement.chosen, leaf_of_[node]) - placement.chosen.begin();
    };
    const auto last = static_cast<std::ptrdiff_t>(placement.chosen.size());
    std::erase_if(nodes, [&](std::uint32_t node) { return place(node) == last; });
    std::ranges::stable_sort(nodes, {}, place);
  }
  return nodes;
}

bool names_gpus(const PlacementSpec& placement) {
  return placement.kind == PlacementKind::Nodes || placement.kind == PlacementKind::Gpus;
}

std::vector<std::uint32_t> named_gpus(const Cluster& cluster, const PlacementSpec& placement,
                                      std::uint32_t count) {
  const bool nodes = placement.kind == PlacementKind::Nodes;
  const std::size_t all = nodes ? cluster.facts().nodes : cluster.gpus().size();
  const std::uint32_t each = nodes ? cluster.facts().gpus_per_node : 1;
  std::vector<std::uint32_t> gpus;
  for (const std::uint32_t number : placement.chosen) {
    if (number >= all)
      throw RunError(fmt::format("there is no {} {}, they are numbered 0 to {}",
                                 nodes ? "node" : "GPU", number, all - 1));
    for (std::uint32_t gpu = number * each; gpu < (number + 1) * each; ++gpu) gpus.push_back(gpu);
  }
  // A list of nodes may hold more GPUs than the job needs, as long as every node is used.
  if (gpus.size() < count || gpus.size() - count >= each)
    throw RunError(fmt::format("the job needs {} GPUs, and {} are listed", count, gpus.size()));
  gpus.resize(count);
  return gpus;
}

// Takes whole nodes first, then a part of one: a job of 20 GPUs on nodes of 8 takes two nodes that
// are wholly free, and 4 GPUs of the first other node that has them. Returns fewer GPUs where these
// are not free.
std::vector<std::uint32_t> FreeGpus::found(const PlacementSpec& placement,
                                           std::uint32_t count) const {
  const std::uint32_t each = cluster_.facts().gpus_per_node;
  std::vector<std::uint32_t> gpus;
  std::vector<std::uint32_t> rest = node_order(placement);
  std::erase_if(rest, [&](std::uint32_t node) {
    const std::vector<std::uint32_t> free = free_of_node(node);
    if (count - gpus.size() < each || free.size() < each) return false;
    gpus.insert(gpus.end(), free.begin(), free.end());
    return true;
  });
  const std::size_t missing = count - gpus.size();
  if (missing == 0 || missing >= each) return gpus;
  for (const std::uint32_t node : rest) {
    const std::vector<std::uint32_t> free = free_of_node(node);
    if (free.size() < missing) continue;
    gpus.insert(gpus.end(), free.begin(), free.begin() + static_cast<std::ptrdiff_t>(missing));
    break;
  }
  return gpus;
}

std::vector<std::uint32_t> FreeGpus::take(const PlacementSpec& placement, std::uint32_t count) {
  const std::vector<std::uint32_t> gpus =
      names_gpus(placement) ? named_gpus(cluster_, placement, count) : found(placement, count);
  for (const std::uint32_t gpu : gpus)
    if (taken_[gpu]) throw RunError(fmt::format("another job has GPU {}", gpu));
  if (gpus.size() < count)
    throw RunError(fmt::format("the job needs {} GPUs, and its placement finds {} ({})", count,
                               gpus.size(), to_text(placement)));
  for (const std::uint32_t gpu : gpus) taken_[gpu] = true;
  return gpus;
}

}  // namespace trainyard
