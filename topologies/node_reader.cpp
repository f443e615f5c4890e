#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/data_directory.hpp"
#include "sim/base/quantity.hpp"
#include "topologies/fabric_json.hpp"
#include "topologies/node.hpp"
#include "topologies/positive.hpp"
#include "topologies/torus.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

constexpr const char* kFolder = "topologies/data";

// The shapes of a scale-up network, as files name them.
constexpr std::array<std::pair<std::string_view, NodeSpec::ScaleUp>, 4> kScaleUps = {{
    {"nv_switch", NodeSpec::ScaleUp::NvSwitch},
    {"full_mesh", NodeSpec::ScaleUp::FullMesh},
    {"torus", NodeSpec::ScaleUp::Torus},
    {"none", NodeSpec::ScaleUp::None},
}};

std::uint32_t count(JsonObject& object, std::string_view key, IntegerRule rule) {
  rule.most = 65536;
  return static_cast<std::uint32_t>(object.integer(key, rule));
}

// A rate that must be positive: a wire without capacity is a wire left out.
BytesPerSecond wire_rate(JsonObject& object, std::string_view key,
                         std::optional<BytesPerSecond> fallback = {}) {
  return positive_rate(object, key, "leave out what the node does not have", fallback);
}

void read_torus(JsonObject& object, NodeSpec& node) {
  node.scale_up_dims = object.has("dims") ? read_dims(object, "dims") : balanced_dims(node.gpus, 3);
  if (node.scale_up_dims.empty() || torus_places(node.scale_up_dims) == node.gpus) return;
  object.report(
      "dims",
      fmt::format("have {} places for {} GPUs", torus_places(node.scale_up_dims), node.gpus),
      "the product of the dimensions is the number of GPUs");
}

void read_scale_up(JsonObject object, NodeSpec& node) {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kScaleUps) names.emplace_back(name);
  const std::string kind = object.choice("kind", names);
  for (const auto& [name, value] : kScaleUps) {
    if (name == kind) node.scale_up = value;
  }
  object.ignore("source");
  if (kind == "none") return;
  if (node.scale_up == NodeSpec::ScaleUp::Torus) read_torus(object, node);
  node.nvlinks = count(object, "links_per_gpu", {.least = 1});
  node.nvlink = wire_rate(object, "usable");
  node.nvlink_nominal = wire_rate(object, "nominal", node.nvlink);
  node.nvlink_latency = object.time("latency");
}

void read_host_side(JsonObject& root, NodeSpec& node) {
  JsonObject pcie = root.object("pcie");
  pcie.ignore("source");
  node.gpus_per_pcie_switch = count(pcie, "gpus_per_switch", {.least = 0});
  node.pcie = wire_rate(pcie, "usable");
  node.pcie_nominal = wire_rate(pcie, "nominal", node.pcie);
  node.pcie_latency = pcie.time("latency");
  JsonObject cpu = root.object("cpu");
  cpu.ignore("source");
  node.gpus_per_cpu = count(cpu, "gpus_per_cpu", {.least = 1});
  node.cpus_per_host = count(cpu, "cpus_per_host", {.fallback = 2, .least = 1});
  node.socket = wire_rate(cpu, "usable");
  node.socket_nominal = wire_rate(cpu, "nominal", node.socket);
  if (!root.has("chip_to_chip")) return;
  JsonObject chip = root.object("chip_to_chip");
  chip.ignore("source");
  node.chip_to_chip = wire_rate(chip, "usable");
  node.chip_to_chip_nominal = wire_rate(chip, "nominal", node.chip_to_chip);
}

void read_host_memory(JsonObject object, NodeSpec& node) {
  object.ignore("source");
  node.host_memory = object.bytes("usable");
  node.host_bandwidth = wire_rate(object, "bandwidth");
}

void read_nics(JsonObject object, NodeSpec& node) {
  object.ignore("source");
  node.nics = count(object, "count", {.least = 0});
  if (node.nics == 0) return;
  node.nic = wire_rate(object, "usable");
  node.nic_nominal = wire_rate(object, "nominal", node.nic);
  node.nic_latency = object.time("latency");
}

// One entry of "other_gpus": {"gpus": [1], "gpu": "l40s", "gpu_memory": {"usable": "46068 MiB"}}.
OtherGpus read_other_gpus(JsonObject object, std::uint32_t gpus, std::set<std::uint32_t>& seen) {
  OtherGpus other;
  object.ignore("source");
  other.gpus = read_numbers(object, "gpus", "GPUs");
  for (const std::uint32_t gpu : other.gpus) {
    if (gpu >= gpus)
      object.report("gpus", fmt::format("there is no GPU {}", gpu),
                    fmt::format("the node's GPUs are numbered 0 to {}", gpus - 1));
    else if (!seen.insert(gpu).second)
      object.report("gpus", fmt::format("GPU {} is named twice", gpu), "name it once");
  }
  other.kind.profile = object.text("gpu");
  JsonObject memory = object.object("gpu_memory");
  memory.ignore("source");
  other.kind.memory = gpu_memory(memory, "usable");
  if (!object.has("pcie")) return other;
  JsonObject pcie = object.object("pcie");
  pcie.ignore("source");
  other.pcie = wire_rate(pcie, "usable");
  other.pcie_nominal = wire_rate(pcie, "nominal", other.pcie);
  return other;
}

void read_latency(JsonObject object, NodeSpec& node) {
  object.ignore("source");
  node.latency.launch = object.time("launch");
  node.latency.intra_step = object.time("intra_step");
  node.latency.inter_step = object.time("inter_step");
}

void check_divides(JsonObject& root, std::string_view key, std::uint32_t part, const NodeSpec& node,
                   std::string_view what) {
  if (part == 0 || node.gpus % part == 0) return;
  root.report(key, fmt::format("{} {} do not divide {} GPUs", part, what, node.gpus),
              "use a divisor of the number of GPUs");
}

Json wire_json(BytesPerSecond usable, BytesPerSecond nominal) {
  return {{"usable", exact_text(usable)}, {"nominal", exact_text(nominal)}};
}

Json other_gpus_json(const NodeSpec& node) {
  Json all = Json::array();
  for (const OtherGpus& other : node.other_gpus) {
    Json json = {{"gpus", other.gpus}, {"gpu", other.kind.profile}};
    json["gpu_memory"] = {{"usable", exact_text(other.kind.memory)}};
    if (other.pcie.value() > 0.0) json["pcie"] = wire_json(other.pcie, other.pcie_nominal);
    all.push_back(std::move(json));
  }
  return all;
}

}  // namespace

NodeSpec read_node(JsonObject object, std::string name) {
  NodeSpec node;
  node.name = object.text("name", std::move(name));
  object.ignore("description");
  node.source = object.text("source", "");
  node.gpu = object.text("gpu");
  node.gpus = count(object, "gpus", {.fallback = 8, .least = 1});
  JsonObject memory = object.object("gpu_memory");
  memory.ignore("source");
  node.gpu_memory = gpu_memory(memory, "usable");
  if (object.has("other_gpus")) {
    std::set<std::uint32_t> seen;
    for (const JsonObject& entry : object.objects("other_gpus"))
      node.other_gpus.push_back(read_other_gpus(entry, node.gpus, seen));
  }
  read_scale_up(object.object("scale_up"), node);
  read_host_side(object, node);
  if (object.has("host_memory")) read_host_memory(object.object("host_memory"), node);
  read_nics(object.object("nic"), node);
  read_latency(object.object("collective_latency"), node);
  check_divides(object, "pcie", node.gpus_per_pcie_switch, node, "GPUs per PCIe switch");
  check_divides(object, "cpu", node.gpus_per_cpu, node, "GPUs per CPU");
  check_divides(object, "nic", node.nics, node, "NICs");
  const bool switchless = node.gpus_per_pcie_switch == 0;
  if (switchless && node.chip_to_chip.value() <= 0.0 && object.has("pcie")) {
    object.report("pcie", "without PCIe switches the GPUs have no way to the CPU",
                  "give gpus_per_switch at least 1, or a chip_to_chip link");
  }
  return node;
}

std::vector<std::uint32_t> read_numbers(JsonObject& object, std::string_view key,
                                        std::string_view what) {
  constexpr std::uint64_t kMost = 1U << 20U;
  const Json& value = object.raw(key);
  std::vector<std::uint32_t> numbers;
  for (const Json& number : value.is_array() ? value : Json::array())
    if (number.is_number_unsigned() && number.get<std::uint64_t>() <= kMost)
      numbers.push_back(number.get<std::uint32_t>());
  if (!value.is_array() || numbers.size() != value.size() || numbers.empty())
    object.report(key, fmt::format("must be a list of the numbers of {}", what), "such as [2, 3]");
  return numbers;
}

void change_nics(JsonObject object, NodeSpec& node) {
  object.ignore("source");
  node.nic = wire_rate(object, "usable");
  node.nic_nominal = wire_rate(object, "nominal", node.nic);
  if (object.has("latency")) node.nic_latency = object.time("latency");
}

Json to_json(const NodeSpec& node) {
  Json json = {
      {"name", node.name}, {"source", node.source}, {"gpu", node.gpu}, {"gpus", node.gpus}};
  json["gpu_memory"] = {{"usable", exact_text(node.gpu_memory)}};
  if (!node.other_gpus.empty()) json["other_gpus"] = other_gpus_json(node);
  Json& scale_up = json["scale_up"];
  for (const auto& [name, kind] : kScaleUps) {
    if (kind == node.scale_up) scale_up["kind"] = name;
  }
  if (node.scale_up != NodeSpec::ScaleUp::None) {
    if (node.scale_up == NodeSpec::ScaleUp::Torus) scale_up["dims"] = node.scale_up_dims;
    scale_up["links_per_gpu"] = node.nvlinks;
    scale_up.update(wire_json(node.nvlink, node.nvlink_nominal));
    scale_up["latency"] = exact_text(node.nvlink_latency);
  }
  json["pcie"] = {{"gpus_per_switch", node.gpus_per_pcie_switch}};
  json["pcie"].update(wire_json(node.pcie, node.pcie_nominal));
  json["pcie"]["latency"] = exact_text(node.pcie_latency);
  json["cpu"] = {{"gpus_per_cpu", node.gpus_per_cpu}, {"cpus_per_host", node.cpus_per_host}};
  json["cpu"].update(wire_json(node.socket, node.socket_nominal));
  if (node.chip_to_chip.value() > 0.0) {
    json["chip_to_chip"] = wire_json(node.chip_to_chip, node.chip_to_chip_nominal);
  }
  if (node.host_memory.value() > 0.0) {
    json["host_memory"] = {{"usable", exact_text(node.host_memory)},
                           {"bandwidth", exact_text(node.host_bandwidth)}};
  }
  json["nic"] = {{"count", node.nics}};
  if (node.nics > 0) {
    json["nic"].update(wire_json(node.nic, node.nic_nominal));
    json["nic"]["latency"] = exact_text(node.nic_latency);
  }
  json["collective_latency"] = {{"launch", exact_text(node.latency.launch)},
                                {"intra_step", exact_text(node.latency.intra_step)},
                                {"inter_step", exact_text(node.latency.inter_step)}};
  return json;
}

NodeSpec load_node(const std::string& name_or_path) {
  const std::filesystem::path path = data_file(kFolder, name_or_path);
  JsonFile file = JsonFile::read(path);
  NodeSpec node = read_node(file.root(), path.stem().string());
  file.finish();
  return node;
}

Json node_fields(const std::string& name_or_path) {
  const std::filesystem::path path = data_file(kFolder, name_or_path);
  JsonFile file = JsonFile::read(path);
  Json& fields = file.document();
  if (fields.is_object() && !fields.contains("name")) fields["name"] = path.stem().string();
  return std::move(fields);
}

std::vector<std::string> node_names() { return data_names(kFolder); }

}  // namespace trainyard
