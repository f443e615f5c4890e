#include "topologies/fabric_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "topologies/registry.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::int64_t kCountMost = 65536;

// By Routing::Kind.
constexpr std::array<std::string_view, 3> kRoutingNames = {"ideal", "ecmp", "round_robin"};

// One field of FabricSpec: its name, and the ways from and to JSON.
struct Field {
  std::string_view name;
  void (*read)(JsonObject& object, std::string_view name, FabricSpec& fabric);
  Json (*write)(const FabricSpec& fabric);
};

template <std::uint32_t FabricSpec::*kMember, std::int64_t kLeast>
constexpr Field whole(std::string_view name) {
  return {name,
          [](JsonObject& object, std::string_view key, FabricSpec& fabric) {
            fabric.*kMember = static_cast<std::uint32_t>(object.integer(
                key, {.fallback = fabric.*kMember, .least = kLeast, .most = kCountMost}));
          },
          [](const FabricSpec& fabric) { return Json(fabric.*kMember); }};
}

template <double FabricSpec::*kMember>
constexpr Field ratio(std::string_view name) {
  return {name,
          [](JsonObject& object, std::string_view key, FabricSpec& fabric) {
            fabric.*kMember = object.number(key, {.fallback = fabric.*kMember, .least = 1.0});
          },
          [](const FabricSpec& fabric) { return Json(fabric.*kMember); }};
}

void read_latency(JsonObject& object, std::string_view key, FabricSpec& fabric) {
  fabric.hop_latency = object.time(key, fabric.hop_latency);
}

void read_dims_field(JsonObject& object, std::string_view key, FabricSpec& fabric) {
  if (object.has(key)) fabric.dims = read_dims(object, key);
}

void read_routing_field(JsonObject& object, std::string_view key, FabricSpec& fabric) {
  if (object.has(key)) fabric.routing = read_routing(object.object(key));
}

constexpr std::array<Field, 12> kFields = {{
    whole<&FabricSpec::radix, 2>("radix"),
    ratio<&FabricSpec::oversubscription>("oversubscription"),
    ratio<&FabricSpec::core_oversubscription>("core_oversubscription"),
    whole<&FabricSpec::nodes_per_unit, 0>("nodes_per_unit"),
    {"dims", &read_dims_field, [](const FabricSpec& fabric) { return Json(fabric.dims); }},
    whole<&FabricSpec::dimensions, 1>("dimensions"),
    whole<&FabricSpec::cables, 0>("cables"),
    whole<&FabricSpec::nics_per_router, 0>("nics_per_router"),
    whole<&FabricSpec::routers_per_group, 0>("routers_per_group"),
    whole<&FabricSpec::global_links, 0>("global_links"),
    {"hop_latency", &read_latency,
     [](const FabricSpec& fabric) { return Json(exact_text(fabric.hop_latency)); }},
    {"routing", &read_routing_field,
     [](const FabricSpec& fabric) { return to_json(fabric.routing); }},
}};

bool uses(const FabricEntry* entry, std::string_view field) {
  return entry != nullptr &&
         std::find(entry->fields.begin(), entry->fields.end(), field) != entry->fields.end();
}

}  // namespace

std::vector<std::uint32_t> read_dims(JsonObject& object, std::string_view key) {
  const Json& value = object.raw(key);
  std::vector<std::uint32_t> dims;
  const auto is_size = [](const Json& size) {
    return size.is_number_integer() && size.get<std::int64_t>() >= 1 &&
           size.get<std::int64_t>() <= kCountMost;
  };
  constexpr std::size_t kDimsMost = 8;
  const bool sound = value.is_array() && !value.empty() && value.size() <= kDimsMost &&
                     std::all_of(value.begin(), value.end(), is_size);
  if (!sound) {
    object.report(
        key,
        fmt::format("must be a list of 1 to {} whole numbers, not {}", kDimsMost, shown(value)),
        "write the size of each dimension, [4, 4, 2]");
    return dims;
  }
  for (const Json& size : value) dims.push_back(size.get<std::uint32_t>());
  return dims;
}

FabricSpec read_fabric(JsonObject object) {
  FabricSpec fabric;
  std::vector<std::string> kinds;
  for (const FabricEntry& entry : fabrics()) kinds.emplace_back(entry.name);
  fabric.kind = object.choice("kind", kinds, fabric.kind);
  const FabricEntry* entry = find_fabric(fabric.kind);
  for (const Field& field : kFields) {
    if (uses(entry, field.name)) {
      field.read(object, field.name, fabric);
    } else if (object.has(field.name)) {
      object.ignore(field.name);
      object.report(field.name, fmt::format("means nothing to {}", fabric.kind), "leave it out");
    }
  }
  fabric.reduces = object.boolean("reduces", false);
  return fabric;
}

Json to_json(const FabricSpec& fabric) {
  Json json = {{"kind", fabric.kind}};
  const FabricEntry* entry = find_fabric(fabric.kind);
  for (const Field& field : kFields) {
    // Balanced dimensions and ideal routing are said by leaving them out.
    const bool left_out = (field.name == "dims" && fabric.dims.empty()) ||
                          (field.name == "routing" && fabric.routing == Routing{});
    if (uses(entry, field.name) && !left_out) json[std::string(field.name)] = field.write(fabric);
  }
  if (fabric.reduces) json["reduces"] = true;
  return json;
}

Routing read_routing(JsonObject object) {
  Routing routing;
  const std::vector<std::string> names(kRoutingNames.begin(), kRoutingNames.end());
  const std::string kind = object.choice("kind", names, names.front());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == kind) routing.kind = static_cast<Routing::Kind>(i);
  }
  const auto refuse_field = [&](std::string_view key) {
    if (!object.has(key)) return;
    object.ignore(key);
    object.report(key, fmt::format("means nothing to {} routing", kind), "leave it out");
  };
  if (routing.kind == Routing::Kind::Ecmp) {
    routing.seed = static_cast<std::uint64_t>(object.integer("seed", {.fallback = 1, .least = 0}));
  } else {
    refuse_field("seed");
  }
  if (routing.kind != Routing::Kind::Ideal) {
    routing.flows_per_connection = static_cast<std::uint32_t>(
        object.integer("flows_per_connection", {.fallback = 1, .least = 1, .most = 128}));
  } else {
    refuse_field("flows_per_connection");
  }
  return routing;
}

Json to_json(const Routing& routing) {
  Json json = {{"kind", kRoutingNames.at(static_cast<std::size_t>(routing.kind))}};
  if (routing.kind == Routing::Kind::Ecmp) json["seed"] = routing.seed;
  if (routing.kind != Routing::Kind::Ideal) {
    json["flows_per_connection"] = routing.flows_per_connection;
  }
  return json;
}

}  // namespace trainyard
