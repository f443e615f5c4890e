// The registry of fabrics: the fields of each kind, and how scenarios read and write them.
#include "topologies/fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/words.hpp"
#include "topologies/fields.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::string_view kHopMeaning = "of one cable between switches and the switch behind it";
constexpr std::string_view kRatioMeaning = "downlink over uplink capacity of a leaf";
constexpr std::string_view kCoreMeaning = "the same one tier up";

using R = RailOptimized;
constexpr Field<R> kRailOptimized[] = {
    {"radix", "ports of a switch", count<&R::radix, 2>()},
    {"oversubscription", kRatioMeaning, Real<R>{&R::oversubscription, 1.0}},
    {"core_oversubscription", kCoreMeaning, Real<R>{&R::core_oversubscription, 1.0}},
    {"nodes_per_unit", "under one set of rail leaves; 0: as many as fit",
     count<&R::nodes_per_unit, 0>()},
    {"hop_latency", kHopMeaning, time<&R::hop_latency>()},
};

using F = FatTree;
constexpr Field<F> kFatTree[] = {
    {"radix", "ports of a switch", count<&F::radix, 2>()},
    {"oversubscription", kRatioMeaning, Real<F>{&F::oversubscription, 1.0}},
    {"hop_latency", kHopMeaning, time<&F::hop_latency>()},
};

using F3 = FatTree3;
constexpr Field<F3> kFatTree3[] = {
    {"radix", "ports of a switch", count<&F3::radix, 2>()},
    {"oversubscription", kRatioMeaning, Real<F3>{&F3::oversubscription, 1.0}},
    {"core_oversubscription", kCoreMeaning, Real<F3>{&F3::core_oversubscription, 1.0}},
    {"hop_latency", kHopMeaning, time<&F3::hop_latency>()},
};

using T = Torus;
constexpr Own<T> kDims{
    [](JsonObject& object, std::string_view key, T& torus) {
      if (object.has(key)) torus.dims = read_dims(object, key);
    },
    [](const T& torus) { return torus.dims.empty() ? Json() : Json(torus.dims); }};
constexpr Own<T> kCount = count<&T::dimensions, 1>();
constexpr Own<T> kDimensions{
    [](JsonObject& object, std::string_view key, T& torus) {
      kCount.read(object, key, torus);
      if (object.has(key) && !torus.dims.empty() && torus.dims.size() != torus.dimensions)
        object.report(key, fmt::format("{}, and dims has {}", torus.dimensions, torus.dims.size()),
                      "leave one of them out");
    },
    [](const T& torus) {
      return torus.dims.empty() ? kCount.write(torus) : Json(torus.dims.size());
    },
    kCount.schema, kCount.required};
constexpr Field<T> kTorus[] = {
    {"dims", "nodes along each dimension; balanced when left out", kDims},
    {"dimensions", "of balanced ones", kDimensions},
    {"cables", "between two neighbours; 0: as many as a node has NICs", count<&T::cables, 0>()},
    {"hop_latency", kHopMeaning, time<&T::hop_latency>()},
};

using D = Dragonfly;
constexpr Field<D> kDragonfly[] = {
    {"radix", "ports of a router", count<&D::radix, 2>()},
    {"nics_per_router", "0: a quarter of its ports", count<&D::nics_per_router, 0>()},
    {"routers_per_group", "0: twice the NICs of one", count<&D::routers_per_group, 0>()},
    {"global_links", "of one router; 0: as many as NICs", count<&D::global_links, 0>()},
    {"hop_latency", kHopMeaning, time<&D::hop_latency>()},
};

// All fabrics have routing except a single switch, which has only one route.
constexpr Own<FabricSpec> kRouting{
    [](JsonObject& object, std::string_view key, FabricSpec& fabric) {
      if (object.has(key)) fabric.routing = read_routing(object.object(key));
    },
    [](const FabricSpec& fabric) {
      return fabric.routing == Routing{} ? Json() : to_json(fabric.routing);
    }};
constexpr Own<FabricSpec> kReduces{
    [](JsonObject& object, std::string_view key, FabricSpec& fabric) {
      fabric.reduces = object.boolean(key, false);
    },
    [](const FabricSpec& fabric) { return fabric.reduces ? Json(true) : Json(); }};
bool has_routes(const FabricSpec& fabric) { return fabric_entry(fabric.kind).has("routing"); }
constexpr Field<FabricSpec> kCommon[] = {
    {"routing", "how flows choose among equal ways", kRouting, has_routes},
    {"reduces", "its switches add what passes through them (SHARP)", kReduces},
};

// Makes the entry of one kind. Its fields are those of its base class where it has one.
template <class Kind, const auto& fields, class FieldOwner = Kind>
FabricEntry entry(std::string_view name, std::string_view summary) {
  std::vector<std::string_view> keys;
  for (const Field<FieldOwner>& field : fields) keys.push_back(field.key);
  keys.emplace_back("routing");
  return {.name = name,
          .summary = summary,
          .defaults = Kind{},
          .keys = std::move(keys),
          .read = [](JsonObject& object) -> FabricKind {
            Kind kind;
            static_cast<FieldOwner&>(kind) = read_fields<FieldOwner>(object, fields, FieldOwner{});
            return kind;
          },
          .write =
              [](const FabricKind& kind) {
                return write_fields<FieldOwner>(fields, std::get<Kind>(kind));
              }};
}

FabricEntry single_switch() {
  return {.name = "single_switch",
          .summary = "one ideal switch with a port for every NIC: the bound of all fabrics",
          .defaults = SingleSwitch{},
          .keys = {},
          .read = [](JsonObject&) -> FabricKind { return SingleSwitch{}; },
          .write = [](const FabricKind&) { return Json::object(); }};
}

constexpr Words<Routing::Kind, 3> kRoutingKinds{{{Routing::Kind::Ideal, "ideal"},
                                                 {Routing::Kind::Ecmp, "ecmp"},
                                                 {Routing::Kind::RoundRobin, "round_robin"}}};
constexpr Own<Routing> kSeed{[](JsonObject& object, std::string_view key, Routing& routing) {
                               const auto fallback = static_cast<std::int64_t>(routing.seed);
                               routing.seed = static_cast<std::uint64_t>(
                                   object.integer(key, {.fallback = fallback, .least = 0}));
                             },
                             [](const Routing& routing) { return Json(routing.seed); }};
constexpr Field<Routing> kRoutingFields[] = {
    {"kind", "equal shares, a hash of each flow, or in turn",
     word_of<Routing, &Routing::kind, kRoutingKinds>()},
    {"seed", "of the hash", kSeed,
     [](const Routing& routing) { return routing.kind == Routing::Kind::Ecmp; }},
    {"flows_per_connection", "that the data of a connection is split over",
     count<&Routing::flows_per_connection, 1, Absent::Default, 128>(),
     [](const Routing& routing) { return routing.kind != Routing::Kind::Ideal; }},
};

void refuse_field(JsonObject& object, std::string_view key, std::string_view of) {
  if (!object.has(key)) return;
  object.ignore(key);
  object.report(key, fmt::format("{} has no such field", of), "leave it out");
}

// Returns the fields of other fabrics, each once.
std::vector<std::string_view> fields_of_others(const FabricEntry& own) {
  std::vector<std::string_view> keys;
  for (const FabricEntry& other : fabrics())
    for (const std::string_view key : other.keys)
      if (!own.has(key) && std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  return keys;
}

}  // namespace

bool FabricEntry::has(std::string_view key) const {
  return std::ranges::find(keys, key) != keys.end();
}

std::span<const FabricEntry> fabrics() {
  static const std::vector<FabricEntry> all = {
      single_switch(),
      entry<RailOptimized, kRailOptimized>(
          "rail_optimized",
          "leaf-spine in units where leaf q takes NIC q of every node; a third tier where two are "
          "too small"),
      entry<FatTree, kFatTree>(
          "fat_tree", "two levels, all NICs of a node on one leaf, every leaf to every spine"),
      entry<FatTree3, kFatTree3>("fat_tree3",
                                 "three levels: pods of leaves and spines, joined by cores"),
      entry<MultiPlane, kFatTree, FatTree>(
          "multi_plane",
          "NIC q of every node in plane q, each plane a two-level fat-tree of its own; GPUs pass "
          "messages from plane to plane"),
      entry<DualTor, kRailOptimized, RailOptimized>(
          "dual_tor", "every NIC's two ports on leaves of two planes, each plane rail-optimised"),
      entry<Torus, kTorus>(
          "torus", "a router for every node, joined to its neighbours along each dimension"),
      entry<Dragonfly, kDragonfly>(
          "dragonfly", "groups of routers, all joined within a group, every group to every other"),
  };
  return all;
}

const FabricEntry* find_fabric(std::string_view name) {
  const auto found = std::ranges::find(fabrics(), name, &FabricEntry::name);
  return found == fabrics().end() ? nullptr : &*found;
}

// The registry has one entry for each alternative of FabricKind, so the index identifies it.
const FabricEntry& fabric_entry(const FabricKind& kind) {
  return *std::ranges::find(fabrics(), kind.index(),
                            [](const FabricEntry& entry) { return entry.defaults.index(); });
}

FabricSpec read_fabric(JsonObject object) {
  std::vector<std::string> names;
  for (const FabricEntry& entry : fabrics()) names.emplace_back(entry.name);
  const FabricEntry& entry = *find_fabric(object.choice("kind", names, names.front()));
  FabricSpec fabric{.kind = entry.read(object)};
  // A field that only other fabrics have gets its own message instead of "unknown key".
  for (const std::string_view key : fields_of_others(entry)) refuse_field(object, key, entry.name);
  return read_fields<FabricSpec>(object, kCommon, std::move(fabric));
}

Json to_json(const FabricSpec& fabric) {
  const FabricEntry& entry = fabric_entry(fabric.kind);
  Json json = {{"kind", entry.name}};
  json.update(entry.write(fabric.kind));
  json.update(write_fields<FabricSpec>(kCommon, fabric));
  return json;
}

Routing read_routing(JsonObject object) {
  const auto routing = read_fields<Routing>(object, kRoutingFields, Routing{});
  // A field that this kind of routing does not use is an error, because it would have no effect.
  const std::string name = to_json(routing)["kind"].get<std::string>() + " routing";
  for (const Field<Routing>& field : kRoutingFields)
    if (!field.is_of(routing)) refuse_field(object, field.key, name);
  return routing;
}

Json to_json(const Routing& routing) { return write_fields<Routing>(kRoutingFields, routing); }

}  // namespace trainyard
