#include "topologies/cluster_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "topologies/custom_cluster.hpp"
#include "topologies/node.hpp"
#include "topologies/registry.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::array<std::string_view, 5> kFabricFields = {
    "radix", "oversubscription", "core_oversubscription", "nodes_per_unit", "hop_latency"};

// Problems of a file that the object names, told at the place that names it.
void pass_on(JsonObject& object, std::string_view key, const InputError& error) {
  for (const Problem& problem : error.problems()) {
    if (problem.file.empty() && problem.pointer.empty()) {
      object.report(key, problem.problem, problem.hint);
    } else {
      object.report(key, to_text(problem));
    }
  }
}

std::string located(const std::string& name, const std::filesystem::path& folder) {
  std::error_code error;
  const bool is_path = name.ends_with(".json") || name.find('/') != std::string::npos;
  const std::filesystem::path beside = folder / name;
  if (is_path && std::filesystem::is_regular_file(beside, error)) return beside.string();
  return name;
}

NodeSpec node_of(JsonObject& cluster, const std::filesystem::path& folder) {
  const Json& value = cluster.raw("node");
  if (value.is_object()) return read_node(cluster.object("node"), "inline");
  const std::string name = cluster.text("node");
  if (name.empty()) return {};
  try {
    return load_node(located(name, folder));
  } catch (const InputError& error) {
    pass_on(cluster, "node", error);
    return {};
  }
}

FabricSpec fabric_of(JsonObject object) {
  FabricSpec fabric;
  std::vector<std::string> kinds;
  for (const FabricEntry& entry : fabrics()) kinds.emplace_back(entry.name);
  fabric.kind = object.choice("kind", kinds, fabric.kind);
  const FabricEntry* entry = find_fabric(fabric.kind);
  for (const std::string_view field : kFabricFields) {
    const bool used =
        std::find(entry->fields.begin(), entry->fields.end(), field) != entry->fields.end();
    if (used || !object.has(field)) continue;
    object.ignore(field);
    object.report(field, fmt::format("means nothing to {}", fabric.kind), "leave it out");
  }
  const auto uses = [&](std::string_view field) {
    return std::find(entry->fields.begin(), entry->fields.end(), field) != entry->fields.end();
  };
  const auto whole = [&](std::string_view field, std::uint32_t fallback, std::int64_t least) {
    return static_cast<std::uint32_t>(
        object.integer(field, {.fallback = fallback, .least = least, .most = 65536}));
  };
  if (uses("radix")) fabric.radix = whole("radix", fabric.radix, 2);
  if (uses("nodes_per_unit")) fabric.nodes_per_unit = whole("nodes_per_unit", 0, 0);
  if (uses("oversubscription")) {
    fabric.oversubscription = object.number("oversubscription", {.fallback = 1.0, .least = 1.0});
  }
  if (uses("core_oversubscription")) {
    fabric.core_oversubscription =
        object.number("core_oversubscription", {.fallback = 1.0, .least = 1.0});
  }
  if (uses("hop_latency")) fabric.hop_latency = object.time("hop_latency", fabric.hop_latency);
  return fabric;
}

ClusterSpec from_file(JsonObject& cluster, const std::filesystem::path& folder) {
  const std::string name = cluster.text("file");
  try {
    JsonFile file = JsonFile::read(located(name, folder));
    ClusterSpec spec = read_custom(file.root(), std::filesystem::path(name).stem().string());
    file.finish();
    return spec;
  } catch (const InputError& error) {
    pass_on(cluster, "file", error);
    return {};
  }
}

}  // namespace

ClusterSpec read_cluster(JsonObject cluster, const std::filesystem::path& folder) {
  if (cluster.has("file")) return from_file(cluster, folder);
  if (cluster.has("devices") || cluster.has("links")) return read_custom(cluster, "custom");
  ClusterSpec spec;
  spec.node = node_of(cluster, folder);
  spec.nodes = static_cast<std::uint32_t>(
      cluster.integer("nodes", {.fallback = 1, .least = 1, .most = 1 << 20}));
  if (cluster.has("fabric")) spec.fabric = fabric_of(cluster.object("fabric"));
  return spec;
}

Json to_json(const ClusterSpec& spec) {
  if (spec.custom) return spelled_out(build_custom(spec));
  Json json;
  const std::vector<std::string> names = node_names();
  const bool named = std::find(names.begin(), names.end(), spec.node.name) != names.end();
  // A node that was changed in code keeps its name and is no longer the one of the data file.
  if (named && to_json(load_node(spec.node.name)) == to_json(spec.node)) {
    json["node"] = spec.node.name;
  } else {
    json["node"] = to_json(spec.node);
  }
  json["nodes"] = spec.nodes;
  Json fabric = {{"kind", spec.fabric.kind},
                 {"radix", spec.fabric.radix},
                 {"oversubscription", spec.fabric.oversubscription},
                 {"core_oversubscription", spec.fabric.core_oversubscription},
                 {"nodes_per_unit", spec.fabric.nodes_per_unit},
                 {"hop_latency", exact_text(spec.fabric.hop_latency)}};
  const FabricEntry* entry = find_fabric(spec.fabric.kind);
  for (const std::string_view field : kFabricFields) {
    const bool used = entry != nullptr && std::find(entry->fields.begin(), entry->fields.end(),
                                                    field) != entry->fields.end();
    if (!used) fabric.erase(std::string(field));
  }
  json["fabric"] = std::move(fabric);
  return json;
}

}  // namespace trainyard
