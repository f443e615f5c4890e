#include "topologies/cluster_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/data_directory.hpp"
#include "topologies/custom_cluster.hpp"
#include "topologies/faults.hpp"
#include "topologies/fields.hpp"
#include "topologies/node.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

// Reports the problems of a file that the object names at the field that names the file.
void pass_on(JsonObject& object, std::string_view key, const InputError& error) {
  for (const Problem& problem : error.problems()) {
    if (problem.file.empty() && problem.pointer.empty()) {
      object.report(key, problem.problem, problem.hint);
    } else {
      object.report(key, to_text(problem));
    }
  }
}

// Returns the path relative to `folder` where such a file exists, else the name unchanged.
std::string located(const std::string& name, const std::filesystem::path& folder) {
  std::error_code error;
  const bool is_path = name.ends_with(".json") || name.find('/') != std::string::npos;
  const std::filesystem::path beside = folder / name;
  if (is_path && std::filesystem::is_regular_file(beside, error)) return beside.string();
  return name;
}

// Reads a node by its name or file, written out, or by difference: {"like": "dgx_h100", "gpus": 4}.
NodeSpec node_of(JsonObject& cluster, const std::filesystem::path& folder) {
  const Json& value = cluster.raw("node");
  const bool differs = value.is_object() && value.contains("like") && value["like"].is_string();
  if (value.is_object() && !differs) return read_node(cluster.object("node"), "inline");
  const std::string name = differs ? value["like"].get<std::string>() : cluster.text("node");
  if (name.empty()) return {};
  try {
    if (!differs) return load_node(located(name, folder));
    Json base = node_fields(located(name, folder));
    base["name"] = name + ", changed";
    return read_node(cluster.object_over("node", base, "like"), name);
  } catch (const InputError& error) {
    pass_on(cluster, "node", error);
    return {};
  }
}

// Reads [{"nodes": [2, 3], "node": "dgx_a100_80gb"}].
std::vector<OtherNodes> read_others(JsonObject& cluster, const std::filesystem::path& folder) {
  std::vector<OtherNodes> all;
  if (!cluster.has("others")) return all;
  for (JsonObject& entry : cluster.objects("others")) {
    OtherNodes others;
    others.nodes = read_numbers(entry, "nodes", "nodes");
    others.node = node_of(entry, folder);
    all.push_back(std::move(others));
  }
  return all;
}

Sites read_sites(JsonObject object, std::uint32_t nodes) {
  return {.count = static_cast<std::uint32_t>(
              object.integer("count", {.fallback = 2, .least = 2, .most = std::max(2U, nodes)})),
          .rate = object.rate("rate"),
          .latency = object.time("latency")};
}

ClusterSpec from_file(JsonObject& cluster, const std::filesystem::path& folder) {
  const std::string name = cluster.text("file");
  try {
    const std::filesystem::path path = located(name, folder);
    JsonFile file = JsonFile::read(path);
    note_data_file("cluster", file.name());
    JsonObject root = file.root();
    ClusterSpec spec;
    if (root.has("node") && !root.has("file")) {
      spec = read_cluster(root, path.parent_path());
    } else {
      spec = read_custom(root, path.stem().string());
      spec.faults = read_faults(root);
    }
    file.finish();
    return spec;
  } catch (const InputError& error) {
    pass_on(cluster, "file", error);
    return {};
  }
}

// Writes a node by its name if it equals the data file of that name, else inline: a node that code
// has changed keeps its name.
Json node_json(const NodeSpec& node) {
  const std::vector<std::string> names = node_names();
  const bool named = std::find(names.begin(), names.end(), node.name) != names.end();
  if (named && to_json(load_node(node.name)) == to_json(node)) return node.name;
  return to_json(node);
}

// The devices and links of a custom cluster before its faults, which are written beside them.
Json whole_custom_json(ClusterSpec spec) {
  spec.faults.clear();
  return to_custom_json(build_custom(spec));
}

Json described_json(const ClusterSpec& spec) {
  Json json;
  json["node"] = node_json(spec.node);
  json["nodes"] = spec.nodes;
  for (const OtherNodes& others : spec.others)
    json["others"].push_back({{"nodes", others.nodes}, {"node", node_json(others.node)}});
  json["fabric"] = to_json(spec.fabric);
  if (spec.sites)
    json["sites"] = {{"count", spec.sites->count},
                     {"rate", exact_text(spec.sites->rate)},
                     {"latency", exact_text(spec.sites->latency)}};
  return json;
}

}  // namespace

ClusterSpec read_cluster(JsonObject cluster, const std::filesystem::path& folder) {
  ClusterSpec spec;
  if (cluster.has("file")) {
    spec = from_file(cluster, folder);
  } else if (cluster.has("devices") || cluster.has("links")) {
    spec = read_custom(cluster, "custom");
  } else {
    spec.node = node_of(cluster, folder);
    if (cluster.has("nic")) change_nics(cluster.object("nic"), spec.node);
    spec.nodes = static_cast<std::uint32_t>(
        cluster.integer("nodes", {.fallback = 1, .least = 1, .most = kNodesMost}));
    spec.others = read_others(cluster, folder);
    if (cluster.has("fabric")) spec.fabric = read_fabric(cluster.object("fabric"));
    if (cluster.has("sites")) spec.sites = read_sites(cluster.object("sites"), spec.nodes);
  }
  for (Fault& fault : read_faults(cluster)) spec.faults.push_back(std::move(fault));
  return spec;
}

void check_cluster_builds(JsonFile& file, std::string_view pointer, const ClusterSpec& spec) {
  try {
    (void)shared_cluster(spec);
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems())
      file.report(std::string(pointer) + problem.pointer, problem.problem, problem.hint);
  }
}

Json to_json(const ClusterSpec& spec) {
  Json json = spec.custom ? whole_custom_json(spec) : described_json(spec);
  if (!spec.faults.empty()) json["faults"] = to_json(std::span<const Fault>(spec.faults));
  return json;
}

}  // namespace trainyard
