#include "topologies/custom_cluster.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "sim/base/check.hpp"
#include "sim/base/nearest.hpp"
#include "sim/cluster/blueprint.hpp"
#include "topologies/faults.hpp"
#include "topologies/fields.hpp"
#include "topologies/node.hpp"
#include "topologies/torus.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

// Returns the names of an enumeration's values, by value.
template <class Kind>
std::vector<std::string> words(std::size_t count) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < count; ++i) all.emplace_back(to_string(static_cast<Kind>(i)));
  return all;
}

// Returns the kind of that name; the first kind when the name is unknown (and has been reported).
template <class Kind>
Kind kind_of(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return static_cast<Kind>(found == names.end() ? 0 : found - names.begin());
}

// Reads a custom cluster. Devices come before links, because links refer to devices by name.
class CustomReader {
 public:
  CustomReader(JsonObject object, std::string name)
      : object_(std::move(object)), name_(std::move(name)) {}

  ClusterSpec read() {
    spec_.node.name = object_.text("name", name_);
    object_.ignore("description");
    spec_.node.gpu = object_.text("gpu");
    spec_.node.gpu_memory = gpu_memory(object_, "gpu_memory");
    custom_.latency = read_latency(object_.object("collective_latency"));
    spec_.node.latency = custom_.latency;
    if (object_.has("routing")) spec_.fabric.routing = read_routing(object_.object("routing"));
    spec_.fabric.reduces = object_.boolean("reduces", false);
    for (JsonObject device : object_.objects("devices")) read_device(device);
    for (JsonObject link : object_.objects("links")) read_link(link);
    if (!kinds_known_) return without_the_whole();
    number_nodes();
    custom_.torus = read_torus("torus", spec_.nodes, "nodes");
    custom_.node_torus = read_torus("node_torus", spec_.node.gpus, "GPUs a node");
    choose_nics();
    spec_.custom = std::move(custom_);
    return std::move(spec_);
  }

 private:
  // Skips the checks of the whole cluster: with a device of unknown kind, which has been reported,
  // they would only report consequences.
  ClusterSpec without_the_whole() {
    object_.ignore("torus");
    object_.ignore("node_torus");
    return std::move(spec_);
  }

  void read_device(JsonObject& object) {
    static const std::vector<std::string> kinds = words<DeviceKind>(kDeviceKinds);
    NamedDevice device;
    device.name = object.text("name");
    const std::string kind = object.choice("kind", kinds);
    device.kind = kind_of<DeviceKind>(kinds, kind);
    if (kind.empty()) {
      kinds_known_ = false;
      for (const char* key : {"node", "nic", "gpu", "gpu_memory"}) object.ignore(key);
    } else if (!is_fabric_switch(device.kind)) {
      device.node =
          static_cast<std::int32_t>(object.integer("node", {.least = 0, .most = 1 << 20}));
    } else if (object.has("node")) {
      object.ignore("node");
      object.report(
          "node",
          fmt::format("\"{}\" is a switch of the fabric and belongs to no node", device.name),
          "leave the node out");
    }
    // Indices count the devices of one kind within a node, or in the fabric.
    device.index = next_index_[{device.node, device.kind}]++;
    if (device.kind == DeviceKind::Gpu && !kind.empty()) read_gpu(object);
    if (!by_name_.emplace(device.name, DeviceId{static_cast<std::uint32_t>(custom_.devices.size())})
             .second) {
      object.report("name", fmt::format("\"{}\" is the name of two devices", device.name),
                    "give every device a name of its own");
    }
    custom_.devices.push_back(std::move(device));
    objects_.push_back(object);
  }

  // Reads a GPU. One of another kind than the cluster's names its profile and memory.
  void read_gpu(JsonObject& object) {
    wanted_nic_.emplace_back(object.text("nic", ""));
    GpuKind kind{.profile = object.text("gpu", spec_.node.gpu)};
    const bool usual = kind.profile == spec_.node.gpu;
    kind.memory = usual ? gpu_memory(object, "gpu_memory", spec_.node.gpu_memory)
                        : gpu_memory(object, "gpu_memory");
    kinds_.push_back(std::move(kind));
  }

  std::optional<DeviceId> device(JsonObject& object, std::string_view key) {
    const std::string name = object.text(key);
    if (const auto found = by_name_.find(name); found != by_name_.end()) return found->second;
    if (name.empty()) return std::nullopt;
    std::vector<std::string> names;
    for (const auto& [known, id] : by_name_) names.push_back(known);
    const std::string near = nearest(name, names);
    object.report(key, fmt::format("there is no device \"{}\"", name),
                  near.empty() ? "name one of the devices" : "did you mean \"" + near + "\"?");
    return std::nullopt;
  }

  // Reads a link; without "duplex": false it adds both directions.
  void read_link(JsonObject& object) {
    static const std::vector<std::string> kinds = words<LinkKind>(kLinkKinds);
    const std::optional<DeviceId> from = device(object, "from");
    const std::optional<DeviceId> to = device(object, "to");
    Link link;
    const std::string kind = object.choice("kind", kinds);
    link.kind = kind_of<LinkKind>(kinds, kind);
    link.capacity = positive_rate(object, "capacity", "leave a link out that carries nothing");
    link.nominal = object.rate("nominal", link.capacity);
    link.latency = object.time("latency", Seconds{});
    link.cables = static_cast<std::uint32_t>(
        object.integer("cables", {.fallback = 1, .least = 1, .most = 65536}));
    const bool duplex = object.boolean("duplex", true);
    if (!from || !to) return;
    link.from = *from;
    link.to = *to;
    if (kinds_known_ && !kind.empty()) check_ends(object, link);
    custom_.links.push_back(link);
    if (!duplex) return;
    std::swap(link.from, link.to);
    custom_.links.push_back(link);
  }

  // Checks that links of the fabric join NICs and fabric switches, and that other links stay in a
  // node.
  void check_ends(JsonObject& object, const Link& link) {
    const NamedDevice& a = custom_.devices[link.from];
    const NamedDevice& b = custom_.devices[link.to];
    const auto on_fabric = [](const NamedDevice& end) {
      return is_fabric_switch(end.kind) || end.kind == DeviceKind::Nic;
    };
    if (link.from == link.to) {
      object.report("to", fmt::format("\"{}\" is linked to itself", a.name), "link two devices");
    } else if (is_fabric_side(link.kind) && !(on_fabric(a) && on_fabric(b))) {
      object.report("kind",
                    fmt::format("a {} link joins NICs and fabric switches, not \"{}\" and \"{}\"",
                                to_string(link.kind), a.name, b.name),
                    "use nvlink, pcie, chip_to_chip or socket inside a node");
    } else if (!is_fabric_side(link.kind) && (a.node != b.node || a.node < 0)) {
      object.report("kind",
                    fmt::format("a {} link stays in a node; \"{}\" and \"{}\" do not share one",
                                to_string(link.kind), a.name, b.name),
                    "use nic, leaf_spine, spine_core, local or global between nodes");
    }
  }

  // Orders the GPUs by node, then by the list, and checks that every node has as many as node 0.
  void number_nodes() {
    std::map<std::int32_t, std::uint32_t> gpus_of_node;
    std::vector<std::tuple<std::int32_t, DeviceId, std::size_t>> order;
    for (DeviceId id = 0; id < custom_.devices.size(); ++id) {
      // A node without GPUs is counted too, so that the comparison below reports it.
      const NamedDevice& device = custom_.devices[id];
      if (device.node >= 0) gpus_of_node.try_emplace(device.node, 0);
      if (device.kind != DeviceKind::Gpu) continue;
      ++gpus_of_node[device.node];
      order.emplace_back(device.node, id, order.size());
    }
    if (order.empty()) {
      object_.report("devices", "there is no gpu among the devices", "add at least one");
      return;
    }
    std::sort(order.begin(), order.end());
    for (const auto& [node, id, number] : order) {
      custom_.gpus.push_back(id);
      gpu_numbers_.push_back(number);
      custom_.kinds.push_back(kinds_[number]);
    }
    spec_.node.gpus = gpus_of_node.begin()->second;
    spec_.nodes = static_cast<std::uint32_t>(gpus_of_node.size());
    std::int32_t expected = 0;
    for (const auto& [node, gpus] : gpus_of_node) {
      if (node != expected++) {
        object_.report("devices", fmt::format("node {} is missing", expected - 1),
                       "number the nodes 0, 1, 2 and so on");
        return;
      }
      if (gpus == spec_.node.gpus) continue;
      object_.report(
          "devices",
          fmt::format("node {} has {} GPUs and node 0 has {}", node, gpus, spec_.node.gpus),
          "give all nodes equally many GPUs");
    }
  }

  // Reads the dimensions. It does not check which wires belong to which dimension: a collective
  // runs dimension by dimension on whatever routes exist.
  std::vector<std::uint32_t> read_torus(std::string_view key, std::uint32_t places,
                                        std::string_view of_what) {
    if (!object_.has(key)) return {};
    std::vector<std::uint32_t> dims = read_dims(object_, key);
    if (dims.empty() || torus_size(dims) == places) return dims;
    object_.report(key,
                   fmt::format("a torus of {} has {} places for {} {}", fmt::join(dims, " x "),
                               torus_size(dims), places, of_what),
                   "write the number along each dimension, the fastest first");
    return {};
  }

  // Assigns each GPU its NIC.
  void choose_nics() {
    std::map<std::int32_t, std::vector<DeviceId>> nics;
    for (DeviceId id = 0; id < custom_.devices.size(); ++id) {
      const NamedDevice& device = custom_.devices[id];
      if (device.kind == DeviceKind::Nic) nics[device.node].push_back(id);
    }
    spec_.node.nics = static_cast<std::uint32_t>(nics[0].size());
    for (std::size_t i = 0; i < custom_.gpus.size(); ++i) {
      const NamedDevice& gpu = custom_.devices[custom_.gpus[i]];
      const std::string& name = wanted_nic_[gpu_numbers_[i]];
      // A single node has no fabric, so its GPUs need no NIC.
      if (name.empty() && spec_.nodes == 1) continue;
      JsonObject& object = objects_[custom_.gpus[i]];
      const auto nic =
          name.empty() ? shared_nic(object, gpu, nics[gpu.node]) : named_nic(object, gpu, name);
      if (nic && spec_.nodes > 1) custom_.nic_of_gpu.push_back(*nic);
    }
  }

  // The GPUs of a node share its NICs evenly, in order: consecutive GPUs have the same one.
  std::optional<DeviceId> shared_nic(JsonObject& object, const NamedDevice& gpu,
                                     const std::vector<DeviceId>& local) const {
    if (local.empty()) {
      object.report("nic", fmt::format("\"{}\" has no NIC in its node", gpu.name),
                    "add a nic device to the node");
      return std::nullopt;
    }
    const std::size_t share = std::max<std::size_t>(spec_.node.gpus, 1);
    return local[static_cast<std::size_t>(gpu.index) * local.size() / share % local.size()];
  }

  std::optional<DeviceId> named_nic(JsonObject& object, const NamedDevice& gpu,
                                    const std::string& name) {
    const std::optional<DeviceId> nic = device(object, "nic");
    if (!nic) return std::nullopt;
    const NamedDevice& chosen = custom_.devices[*nic];
    if (chosen.kind == DeviceKind::Nic && chosen.node == gpu.node) return nic;
    object.report("nic", fmt::format("\"{}\" is not a NIC of node {}", name, gpu.node),
                  "name a nic device of the same node");
    return std::nullopt;
  }

  JsonObject object_;
  std::string name_;
  ClusterSpec spec_;
  CustomSpec custom_;
  std::map<std::string, DeviceId> by_name_;
  std::map<std::pair<std::int32_t, DeviceKind>, std::int32_t> next_index_;
  bool kinds_known_ = true;
  std::vector<JsonObject> objects_;       // by device, for messages
  std::vector<std::string> wanted_nic_;   // by GPU in the order of the list
  std::vector<GpuKind> kinds_;            // by GPU in the order of the list
  std::vector<std::size_t> gpu_numbers_;  // position in that order, by GPU in rank order
};

Json device_json(const Cluster& cluster, DeviceId id, const std::map<DeviceId, DeviceId>& nic) {
  const Device& device = cluster.device(id);
  Json json = {{"name", cluster.name(id)}, {"kind", to_string(device.kind)}};
  if (device.node >= 0) json["node"] = device.node;
  if (const auto found = nic.find(id); found != nic.end()) {
    json["nic"] = cluster.name(found->second);
  }
  return json;
}

// The properties in which both directions of a link agree; `turned` exchanges the two devices.
auto link_key(const Link& link, bool turned) {
  return std::tuple(turned ? link.to : link.from, turned ? link.from : link.to, link.kind,
                    link.capacity.value(), link.nominal.value(), link.latency.value(), link.cables);
}

// Writes both directions of a link as one entry where they are equal. A multiset of links that have
// no partner yet finds the opposite direction.
Json links_json(const Cluster& cluster) {
  // The counts by key make the pairing linear in the number of links, up to the logarithm of the
  // map.
  std::map<decltype(link_key(Link{}, false)), int> unpaired;
  for (const Link& link : cluster.links()) ++unpaired[link_key(link, false)];
  Json all = Json::array();
  for (const Link& link : cluster.links()) {
    int& own = unpaired[link_key(link, false)];
    if (own == 0) continue;
    --own;
    Json json = {{"from", cluster.name(link.from)},     {"to", cluster.name(link.to)},
                 {"kind", to_string(link.kind)},        {"capacity", exact_text(link.capacity)},
                 {"nominal", exact_text(link.nominal)}, {"latency", exact_text(link.latency)}};
    if (link.cables != 1) json["cables"] = link.cables;
    const auto twin = unpaired.find(link_key(link, true));
    if (twin != unpaired.end() && twin->second > 0) {
      --twin->second;
    } else {
      json["duplex"] = false;
    }
    all.push_back(std::move(json));
  }
  return all;
}

}  // namespace

ClusterSpec read_custom(JsonObject object, const std::string& name) {
  return CustomReader(std::move(object), name).read();
}

Cluster build_custom(const ClusterSpec& spec) {
  TY_CHECK(spec.custom.has_value());
  const CustomSpec& custom = *spec.custom;
  Blueprint blueprint;
  for (const NamedDevice& device : custom.devices)
    blueprint.add({device.kind, device.node, device.index}, device.name);
  for (const Link& link : custom.links) blueprint.link(link.from, link.to, wire_of(link));
  ClusterFacts facts{.name = spec.node.name,
                     .node = spec.node.name,
                     .gpu = spec.node.gpu,
                     .nodes = spec.nodes,
                     .gpus_per_node = spec.node.gpus,
                     .gpu_memory = spec.node.gpu_memory,
                     .mixed_gpus = custom.kinds,
                     .latency = custom.latency,
                     .routing = spec.fabric.routing,
                     .fabric_reduces = spec.fabric.reduces,
                     .torus = custom.torus,
                     .node_torus = custom.node_torus};
  clear_if_uniform(facts);
  return build_with_faults(spec.faults, std::move(facts), std::move(blueprint).wiring(),
                           custom.gpus, custom.nic_of_gpu);
}

Cluster custom_cluster(JsonFile& file) {
  JsonObject root = file.root();
  ClusterSpec spec = read_custom(root, file.name());
  spec.faults = read_faults(root);
  file.finish();
  return build_custom(spec);
}

// Writes any cluster as a custom one, device by device and link by link.
Json to_custom_json(const Cluster& cluster) {
  const ClusterFacts& facts = cluster.facts();
  Json json = {
      {"name", facts.name}, {"gpu", facts.gpu}, {"gpu_memory", exact_text(facts.gpu_memory)}};
  json["collective_latency"] = to_json(facts.latency);
  if (facts.routing != Routing{}) json["routing"] = to_json(facts.routing);
  if (facts.fabric_reduces) json["reduces"] = true;
  if (!facts.torus.empty()) json["torus"] = facts.torus;
  if (!facts.node_torus.empty()) json["node_torus"] = facts.node_torus;
  std::map<DeviceId, DeviceId> nic;
  for (std::size_t i = 0; i < cluster.nic_of_gpu().size(); ++i) {
    nic.emplace(cluster.gpus()[i], cluster.nic_of_gpu()[i]);
  }
  json["devices"] = Json::array();
  for (DeviceId id = 0; id < cluster.device_count(); ++id) {
    json["devices"].push_back(device_json(cluster, id, nic));
  }
  for (std::uint32_t gpu = 0; gpu < facts.mixed_gpus.size(); ++gpu) {
    Json& device = json["devices"][cluster.gpus()[gpu]];
    device["gpu"] = facts.mixed_gpus[gpu].profile;
    device["gpu_memory"] = exact_text(facts.mixed_gpus[gpu].memory);
  }
  json["links"] = links_json(cluster);
  return json;
}

}  // namespace trainyard
