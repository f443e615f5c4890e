#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "kernels/gpu.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_reader.hpp"
#include "tools/studies/validate/dataset.hpp"
#include "tools/studies/validate/row_scenario.hpp"
#include "topologies/node.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

constexpr const char* kFolder = "tools/studies/validate/data";
constexpr std::int64_t kTray = 4;  // GPUs of a compute tray in an NVL72 rack

std::vector<RowPlatform> load_platforms() {
  JsonFile file = JsonFile::read(data_file(kFolder, "platforms"));
  JsonObject root = file.root();
  root.ignore("source");
  std::vector<RowPlatform> all;
  for (JsonObject& entry : root.objects("platforms")) {
    entry.ignore("source");
    all.push_back({.gpu = entry.text("gpu"),
                   .nics = entry.text("nics", ""),
                   .id = entry.text("id", ""),
                   .node = entry.text("node"),
                   .patch = entry.raw("patch"),
                   .domain = entry.boolean("domain", false)});
  }
  file.finish();
  return all;
}

std::vector<PublishedFact> load_facts() {
  JsonFile file = JsonFile::read(data_file(kFolder, "published_facts"));
  JsonObject root = file.root();
  root.ignore("source");
  std::vector<PublishedFact> all;
  for (JsonObject& entry : root.objects("facts")) {
    entry.ignore("scenario");
    all.push_back({.framework = entry.text("framework", ""),
                   .gpu = entry.text("gpu", ""),
                   .model = entry.text("model", ""),
                   .precision = entry.text("precision", ""),
                   .id = entry.text("id", ""),
                   .notes = entry.text("notes", ""),
                   .recompute = entry.text("recompute", ""),
                   .source = entry.text("source"),
                   .scenario = entry.raw("scenario")});
  }
  file.finish();
  return all;
}

// The first platform whose texts the row's begin with. A node that the row names has precedence.
RowPlatform platform_of(const RowTables& tables, const MeasuredRow& row) {
  const std::string own = text_at(row.description, "/hardware/node");
  if (!own.empty()) return {.gpu = {}, .nics = {}, .id = {}, .node = own, .patch = {}};
  const std::string gpu = text_at(row.description, "/hardware/gpu");
  const std::string nics = text_at(row.description, "/hardware/nics");
  for (const RowPlatform& platform : tables.platforms) {
    if (gpu.starts_with(platform.gpu) && nics.starts_with(platform.nics) &&
        row.id.starts_with(platform.id)) {
      return platform;
    }
  }
  std::set<std::string> known;
  for (const RowPlatform& platform : tables.platforms) known.insert(platform.gpu);
  throw InputError(
      Problem{"", "/hardware/gpu",
              fmt::format("no platform is known for \"{}\" (known: {}; or name a node "
                          "of `trainyard list nodes` or a file in /hardware/node, or "
                          "describe the cluster in NAME.machine.json next to the rows)",
                          gpu, fmt::join(known, ", ")),
              ""});
}

// The GPUs that a job uses in each node: the whole node if the job fills nodes, or the job if it is
// smaller than a node. In NVLink domains it is the largest equal share in whole trays: 2,496 GPUs
// use 64 in each of 39 domains.
std::int64_t gpus_of_node(std::int64_t gpus, std::int64_t node, bool domain) {
  if (gpus <= node) return gpus;
  if (!domain || gpus % node == 0) return node;
  for (std::int64_t part = node; part > kTray; part -= kTray) {
    if (gpus % part == 0) return part;
  }
  return node;
}

NodeSpec node_of(const Json& json, const MeasuredRow& row) {
  JsonFile file = JsonFile::parse(row.machine, json.dump());
  NodeSpec node = read_node(file.root(), "node");
  file.finish();
  return node;
}

// The node with only `gpus` of its GPUs.
Json with_gpus(Json node, std::int64_t gpus, const MeasuredRow& row) {
  if (node.at("gpus").get<std::int64_t>() == gpus) return node;
  return to_json(part_of(node_of(node, row), static_cast<std::uint32_t>(gpus)));
}

// Replaces the node's GPU by one of a user's own profile, with the memory of its data sheet.
void give_gpu(const std::string& profile, Json& node) {
  const GpuSheet sheet = load_gpu_sheet(profile);
  node["gpu"] = profile;
  node["gpu_memory"] = {{"usable", fmt::format("{:.0f} B", sheet.memory.value())},
                        {"source", "memory of the data sheet of " + sheet.title}};
}

// The described machine with as many nodes as the row's GPUs need. It is the whole machine if the
// row does not state its GPUs, or if the nodes differ.
Json described_cluster(const MeasuredRow& row) {
  Json cluster = read_machine(row.machine);
  const std::int64_t gpus = whole_at(row.description, "/hardware/num_gpus", 0);
  // A cluster of different nodes cannot be cut to a number of GPUs without saying which nodes are
  // left.
  const bool uniform = cluster.contains("node") && !cluster.contains("others");
  if (gpus == 0 || !uniform) return cluster;
  Json node = cluster["node"].is_string() ? to_json(load_node(cluster["node"].get<std::string>()))
                                          : cluster["node"];
  const auto of_node = node.at("gpus").get<std::int64_t>();
  if (gpus < 1 || (gpus > of_node && gpus % of_node != 0)) {
    throw InputError(Problem{
        "", "/hardware/num_gpus",
        fmt::format("{} GPUs are no whole number of nodes of {} in {}", gpus, of_node, row.machine),
        ""});
  }
  if (gpus < of_node) cluster["node"] = with_gpus(std::move(node), gpus, row);
  cluster["nodes"] = std::max<std::int64_t>(1, gpus / of_node);
  return cluster;
}

}  // namespace

RowTables load_row_tables() { return {.platforms = load_platforms(), .facts = load_facts()}; }

Json cluster_of(const RowTables& tables, const MeasuredRow& row) {
  const Json& json = row.description;
  if (!row.machine.empty() && text_at(json, "/hardware/node").empty())
    return described_cluster(row);
  const RowPlatform platform = platform_of(tables, row);
  const std::int64_t gpus = whole_at(json, "/hardware/num_gpus", 0);
  Json node = to_json(load_node(platform.node));
  const std::string profile = text_at(json, "/hardware/gpu_profile");
  const bool patched = platform.patch.is_object() || !profile.empty();
  if (platform.patch.is_object()) node.merge_patch(platform.patch);
  if (!profile.empty()) give_gpu(profile, node);
  const std::int64_t share =
      gpus_of_node(gpus, node.at("gpus").get<std::int64_t>(), platform.domain);
  if (share <= 0 || gpus % share != 0) {
    throw InputError(Problem{"", "/hardware/num_gpus",
                             fmt::format("{} GPUs are no whole number of nodes", gpus), ""});
  }
  Json cluster;
  // A known node stays a name, so that the scenario remains short and follows the file of the node.
  const bool whole = share == node.at("gpus").get<std::int64_t>();
  cluster["node"] =
      whole && !patched ? Json(platform.node) : with_gpus(std::move(node), share, row);
  cluster["nodes"] = gpus / share;
  // Several nodes are assumed to have a rail-optimised fabric.
  cluster["fabric"] = {{"kind", gpus == share ? "single_switch" : "rail_optimized"}};
  return cluster;
}

Json with_facts(const RowTables& tables, const MeasuredRow& row, Json document) {
  const std::string framework = text_at(row.description, "/framework");
  const std::vector<std::string> known = data_names("models/frameworks");
  if (std::ranges::find(known, framework) != known.end()) document["framework"] = framework;
  const std::string precision = text_at(row.description, "/precision");
  const std::string model = text_at(row.description, "/model/name");
  const std::string notes = text_at(row.description, "/notes");
  const std::string gpu = text_at(row.description, "/hardware/gpu");
  const std::string recompute = text_at(row.description, "/recompute");
  for (const PublishedFact& fact : tables.facts) {
    const bool applies = framework.starts_with(fact.framework) && gpu.starts_with(fact.gpu) &&
                         model.starts_with(fact.model) && precision.starts_with(fact.precision) &&
                         row.id.starts_with(fact.id) && notes.starts_with(fact.notes) &&
                         (fact.recompute.empty() || recompute == fact.recompute);
    if (!applies) continue;
    // Facts apply in the order of the file, so a later one overrides an earlier one.
    document.merge_patch(fact.scenario);
    document["assumptions"].push_back(
        fact.framework.empty() ? fact.source : fmt::format("{}: {}", fact.framework, fact.source));
    if (document.contains("model_patch")) {
      document["model"].merge_patch(document["model_patch"]);
      document.erase("model_patch");
    }
  }
  return document;
}

}  // namespace trainyard
