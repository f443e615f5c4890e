#include "topologies/node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "sim/base/data_directory.hpp"
#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "topologies/fields.hpp"
#include "topologies/torus.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

constexpr const char* kFolder = "topologies/data";

using N = NodeSpec;

// A field for a rate, which must be positive. Where it is left out, it has the other member's
// value.
template <auto member, auto otherwise = nullptr>
constexpr Own<OwnerOf<member>> rate() {
  using Owner = OwnerOf<member>;
  return {[](JsonObject& object, std::string_view key, Owner& owner) {
            std::optional<BytesPerSecond> fallback;
            if constexpr (otherwise != nullptr) fallback = owner.*otherwise;
            owner.*member =
                positive_rate(object, key, "leave out what the node does not have", fallback);
          },
          [](const Owner& owner) { return Json(exact_text(owner.*member)); }};
}

// A field for a size of memory.
template <auto member, auto reader>
constexpr Own<OwnerOf<member>> memory() {
  using Owner = OwnerOf<member>;
  return {[](JsonObject& object, std::string_view key, Owner& owner) {
            owner.*member = reader(object, key);
          },
          [](const Owner& owner) { return Json(exact_text(owner.*member)); }};
}

Bytes usable_memory(JsonObject& object, std::string_view key) { return gpu_memory(object, key); }
Bytes any_memory(JsonObject& object, std::string_view key) { return object.bytes(key); }

// An object with fields of the same owner, and the source of its figures.
template <class Owner, const auto& fields>
void read_part(JsonObject& object, std::string_view key, Owner& owner) {
  JsonObject inner = object.object(key);
  inner.ignore("source");
  owner = read_fields<Owner>(inner, fields, std::move(owner));
}
template <class Owner, const auto& fields>
constexpr Own<Owner> part() {
  return {read_part<Owner, fields>,
          [](const Owner& owner) { return write_fields<Owner>(fields, owner); }};
}
// An object that a node has only where the member is not zero.
template <auto member, const auto& fields>
constexpr Own<OwnerOf<member>> part_with() {
  using Owner = OwnerOf<member>;
  return {[](JsonObject& object, std::string_view key, Owner& owner) {
            if (object.has(key)) read_part<Owner, fields>(object, key, owner);
          },
          [](const Owner& owner) {
            return (owner.*member).value() > 0.0 ? write_fields<Owner>(fields, owner) : Json();
          }};
}

using K = GpuKind;
constexpr Field<K> kKindMemory[] = {
    {"usable", "what a job may have of it", memory<&K::memory, usable_memory>()}};

using O = OtherGpus;
constexpr Field<O> kOtherPcie[] = {
    {"usable", "to its switch", rate<&O::pcie>()},
    {"nominal", "as sold", rate<&O::pcie_nominal, &O::pcie>()},
};
constexpr Own<O> kNumbers{[](JsonObject& object, std::string_view key, O& other) {
                            other.gpus = read_numbers(object, key, "GPUs");
                          },
                          [](const O& other) { return Json(other.gpus); }};
constexpr Own<O> kProfile{[](JsonObject& object, std::string_view key, O& other) {
                            other.kind.profile = object.text(key);
                          },
                          [](const O& other) { return Json(other.kind.profile); }};
constexpr Own<O> kOtherMemory{
    [](JsonObject& object, std::string_view key, O& other) {
      read_part<K, kKindMemory>(object, key, other.kind);
    },
    [](const O& other) { return write_fields<K>(kKindMemory, other.kind); }};
constexpr Field<O> kOtherGpus[] = {
    {"gpus", "their local indices", kNumbers},
    {"gpu", "their profile", kProfile},
    {"gpu_memory", "of each", kOtherMemory},
    {"pcie", "where it is not the node's", part_with<&O::pcie, kOtherPcie>()},
};

// Reads [{"gpus": [1], "gpu": "l40s", "gpu_memory": {"usable": "46068 MiB"}}].
void read_other_gpus(JsonObject& object, std::string_view key, NodeSpec& node) {
  constexpr std::span<const Field<O>> rows = kOtherGpus;
  std::set<std::uint32_t> seen;
  for (JsonObject& entry : object.objects(key)) {
    entry.ignore("source");
    O other = read_fields<O>(entry, rows.first(1), O{});
    for (const std::uint32_t gpu : other.gpus) {
      if (gpu >= node.gpus)
        entry.report("gpus", fmt::format("there is no GPU {}", gpu),
                     fmt::format("the node's GPUs are numbered 0 to {}", node.gpus - 1));
      else if (!seen.insert(gpu).second)
        entry.report("gpus", fmt::format("GPU {} is named twice", gpu), "name it once");
    }
    node.other_gpus.push_back(read_fields<O>(entry, rows.subspan(1), std::move(other)));
  }
}
constexpr Own<N> kOthers{[](JsonObject& object, std::string_view key, N& node) {
                           if (object.has(key)) read_other_gpus(object, key, node);
                         },
                         [](const N& node) {
                           Json all;
                           for (const O& other : node.other_gpus)
                             all.push_back(write_fields<O>(kOtherGpus, other));
                           return all;
                         }};

using ScaleUp = NodeSpec::ScaleUp;
constexpr Words<ScaleUp, 4> kScaleUps{{{ScaleUp::NvSwitch, "nv_switch"},
                                       {ScaleUp::FullMesh, "full_mesh"},
                                       {ScaleUp::Torus, "torus"},
                                       {ScaleUp::None, "none"}}};
bool has_scale_up(const N& node) { return node.scale_up != ScaleUp::None; }
bool is_torus(const N& node) { return node.scale_up == ScaleUp::Torus; }

void read_torus(JsonObject& object, std::string_view key, N& node) {
  node.scale_up_dims = object.has(key) ? read_dims(object, key) : balanced_dims(node.gpus, 3);
  if (node.scale_up_dims.empty() || torus_size(node.scale_up_dims) == node.gpus) return;
  object.report(
      key, fmt::format("have {} places for {} GPUs", torus_size(node.scale_up_dims), node.gpus),
      "the product of the dimensions is the number of GPUs");
}
constexpr Own<N> kScaleUpKind = [] {
  Own<N> kind;
  kind.read = [](JsonObject& object, std::string_view key, N& node) {
    constexpr Choice<N> choice = word_of<N, &N::scale_up, kScaleUps>();
    choice.set(node, object.choice(key, choice.choices()));
  };
  kind.write = [](const N& node) { return Json(word_of<N, &N::scale_up, kScaleUps>().get(node)); };
  return kind;
}();

constexpr Field<N> kGpuMemory[] = {
    {"usable", "what a job may have of it", memory<&N::gpu_memory, usable_memory>()}};
constexpr Field<N> kScaleUp[] = {
    {"kind", "its shape", kScaleUpKind},
    {"dims", "of a torus: GPUs along each dimension, the fastest first",
     Own<N>{read_torus, [](const N& node) { return Json(node.scale_up_dims); }}, is_torus},
    {"links_per_gpu", "12 on an A100", count<&N::nvlinks, 1, Absent::Reported>(), has_scale_up},
    {"usable", "of one GPU, each way", rate<&N::nvlink>(), has_scale_up},
    {"nominal", "as sold", rate<&N::nvlink_nominal, &N::nvlink>(), has_scale_up},
    {"latency", "of one traversal", time<&N::nvlink_latency, Absent::Reported>(), has_scale_up},
};
constexpr Field<N> kPcie[] = {
    {"gpus_per_switch", "0: NICs hang on the CPU",
     count<&N::gpus_per_pcie_switch, 0, Absent::Reported>()},
    {"usable", "GPU or NIC to its switch", rate<&N::pcie>()},
    {"nominal", "as sold", rate<&N::pcie_nominal, &N::pcie>()},
    {"latency", "of one traversal", time<&N::pcie_latency, Absent::Reported>()},
};
constexpr Field<N> kCpu[] = {
    {"gpus_per_cpu", "behind one CPU", count<&N::gpus_per_cpu, 1, Absent::Reported>()},
    {"cpus_per_host", "CPUs of one server", count<&N::cpus_per_host>()},
    {"usable", "CPU to CPU", rate<&N::socket>()},
    {"nominal", "as sold", rate<&N::socket_nominal, &N::socket>()},
};
constexpr Field<N> kChipToChip[] = {
    {"usable", "GPU to its CPU, in addition to PCIe", rate<&N::chip_to_chip>()},
    {"nominal", "as sold", rate<&N::chip_to_chip_nominal, &N::chip_to_chip>()},
};
constexpr Field<N> kHostMemory[] = {
    {"usable", "of all CPUs together", memory<&N::host_memory, any_memory>()},
    {"bandwidth", "as sold", rate<&N::host_bandwidth>()},
};
bool has_nics(const N& node) { return node.nics > 0; }
// A rate that is left out is that of the data file or of the other field, and contradicts nothing.
constexpr Own<N> kNicNominal{
    [](JsonObject& nic, std::string_view key, N& node) {
      rate<&N::nic_nominal, &N::nic>().read(nic, key, node);
      if (nic.has("usable") && nic.has(key) && node.nic > node.nic_nominal)
        nic.report(key,
                   fmt::format("{} is less than the usable {}", exact_text(node.nic_nominal),
                               exact_text(node.nic)),
                   "give what the NIC is sold as, at least what it delivers");
    },
    rate<&N::nic_nominal, &N::nic>().write};
constexpr Field<N> kNic[] = {
    {"count", "of a node", count<&N::nics, 0, Absent::Reported>()},
    {"usable", "of one NIC", rate<&N::nic>(), has_nics},
    {"nominal", "as sold", kNicNominal, has_nics},
    {"latency", "of one traversal", time<&N::nic_latency, Absent::Reported>(), has_nics},
};
constexpr Own<N> kCollectiveLatency{[](JsonObject& object, std::string_view key, N& node) {
                                      node.latency = read_latency(object.object(key));
                                    },
                                    [](const N& node) { return to_json(node.latency); }};

constexpr Field<N> kNode[] = {
    {"name", "how reports call it", Text<N>{&N::name}},
    {"source", "of the figures", Text<N>{&N::source}},
    {"gpu", "a GPU profile (kernels/profiles)", Text<N>{&N::gpu, true}},
    {"gpus", "of one node", count<&N::gpus>()},
    {"gpu_memory", "of each", part<N, kGpuMemory>()},
    {"other_gpus", "those of another kind", kOthers},
    {"scale_up", "the network of the GPUs", part<N, kScaleUp>()},
    {"pcie", "from GPUs and NICs to their switch", part<N, kPcie>()},
    {"cpu", "the CPUs and the link between them", part<N, kCpu>()},
    {"chip_to_chip", "from each GPU to its CPU", part_with<&N::chip_to_chip, kChipToChip>()},
    {"host_memory", "of the CPUs", part_with<&N::host_memory, kHostMemory>()},
    {"nic", "the NICs", part<N, kNic>()},
    {"collective_latency", "of collective steps", kCollectiveLatency},
};

void check_divides(JsonObject& root, std::string_view key, std::uint32_t part, const NodeSpec& node,
                   std::string_view what) {
  if (part == 0 || node.gpus % part == 0) return;
  root.report(key, fmt::format("{} {} do not divide {} GPUs", part, what, node.gpus),
              "use a divisor of the number of GPUs");
}

}  // namespace

NodeSpec read_node(JsonObject object, std::string name) {
  object.ignore("description");
  auto node = read_fields<N>(object, kNode, N{.name = std::move(name)});
  check_divides(object, "pcie", node.gpus_per_pcie_switch, node, "GPUs per PCIe switch");
  check_divides(object, "cpu", node.gpus_per_cpu, node, "GPUs per CPU");
  check_divides(object, "nic", node.nics, node, "NICs");
  // Without PCIe switches only a chip-to-chip link joins a GPU to its CPU. A missing "pcie" is
  // reported above.
  const bool switchless = node.gpus_per_pcie_switch == 0;
  if (switchless && node.chip_to_chip.value() <= 0.0 && object.has("pcie")) {
    object.report("pcie", "without PCIe switches the GPUs have no way to the CPU",
                  "give gpus_per_switch at least 1, or a chip_to_chip link");
  }
  return node;
}

void change_nics(JsonObject object, NodeSpec& node) {
  object.ignore("source");
  rate<&N::nic>().read(object, "usable", node);
  kNicNominal.read(object, "nominal", node);
  time<&N::nic_latency>().read(object, "latency", node);
}

Json to_json(const NodeSpec& node) { return write_fields<N>(kNode, node); }

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

namespace {

// Returns the entry of the GPU in `other_gpus`; nullptr if it is one of the node's usual GPUs.
const OtherGpus* other_gpus(const NodeSpec& node, std::uint32_t gpu) {
  for (const OtherGpus& other : node.other_gpus)
    if (std::ranges::find(other.gpus, gpu) != other.gpus.end()) return &other;
  return nullptr;
}

// Draws one node. Each PCIe switch, CPU and NIC serves consecutive GPUs.
class NodeDraft {
 public:
  explicit NodeDraft(const NodeSpec& node) : node_(node) {}

  DrawnNode draw() {
    // This order determines the device ids within a node.
    gpus_ = add_all(DeviceKind::Gpu, node_.gpus);
    scale_up();
    cpus_ = add_all(DeviceKind::Cpu, node_.gpus / node_.gpus_per_cpu);
    join_cpus();
    if (node_.gpus_per_pcie_switch > 0) {
      switches_ = add_all(DeviceKind::PcieSwitch, node_.gpus / node_.gpus_per_pcie_switch);
    }
    nics_ = add_all(DeviceKind::Nic, node_.nics);
    join_host_side();
    return {std::move(blueprint_).wiring(), std::move(gpus_), std::move(nics_)};
  }

 private:
  std::vector<DeviceId> add_all(DeviceKind kind, std::uint32_t count) {
    std::vector<DeviceId> ids;
    for (std::uint32_t i = 0; i < count; ++i)
      ids.push_back(
          blueprint_.add({.kind = kind, .node = 0, .index = static_cast<std::int32_t>(i)}));
    return ids;
  }

  // The switch chips of an NVLink domain are one non-blocking crossbar: every GPU has a link to
  // each chip and spreads its traffic over them, so one vertex with the GPU's total rate is the
  // same constraint.
  void scale_up() {
    if (node_.scale_up == NodeSpec::ScaleUp::None || node_.gpus < 2) return;
    if (node_.scale_up == NodeSpec::ScaleUp::NvSwitch) {
      const DeviceId plane = add_all(DeviceKind::NvSwitch, 1).front();
      const Wire wire{.kind = LinkKind::NvLink,
                      .capacity = node_.nvlink,
                      .nominal = node_.nvlink_nominal,
                      .latency = node_.nvlink_latency,
                      .cables = std::max(node_.nvlinks, 1U)};
      for (const DeviceId gpu : gpus_) blueprint_.cable(gpu, plane, wire);
      return;
    }
    if (node_.scale_up == NodeSpec::ScaleUp::Torus) return join_torus();
    // In a full mesh a GPU divides its rate and its links evenly among its peers.
    const double peers = node_.gpus - 1.0;
    const Wire wire{.kind = LinkKind::NvLink,
                    .capacity = node_.nvlink / peers,
                    .nominal = node_.nvlink_nominal / peers,
                    .latency = node_.nvlink_latency,
                    .cables = std::max(node_.nvlinks / (node_.gpus - 1), 1U)};
    for (std::size_t a = 0; a < gpus_.size(); ++a) {
      for (std::size_t b = a + 1; b < gpus_.size(); ++b) blueprint_.cable(gpus_[a], gpus_[b], wire);
    }
  }

  // Each direction along each dimension has an equal part of a GPU's rate. On 4 x 4 x 2 a GPU has
  // six of them, and the one wire across the dimension of two stands for two: it has 2/6 of the
  // rate.
  void join_torus() {
    const auto ways = static_cast<std::uint32_t>(
        2 * std::count_if(node_.scale_up_dims.begin(), node_.scale_up_dims.end(),
                          [](std::uint32_t size) { return size > 1; }));
    for (const TorusWire& wire : torus_wires(node_.scale_up_dims)) {
      const double part = static_cast<double>(wire.times) / ways;
      blueprint_.cable(gpus_[wire.from], gpus_[wire.to],
                       {.kind = LinkKind::NvLink,
                        .capacity = node_.nvlink * part,
                        .nominal = node_.nvlink_nominal * part,
                        .latency = node_.nvlink_latency,
                        .cables = std::max(node_.nvlinks * wire.times / ways, 1U)});
    }
  }

  // Joins the CPUs of a server all to all. CPUs of different servers of a node have no direct link.
  void join_cpus() {
    const Wire wire{.kind = LinkKind::Socket,
                    .capacity = node_.socket,
                    .nominal = node_.socket_nominal,
                    .latency = node_.pcie_latency};
    const std::size_t host = node_.cpus_per_host;
    for (std::size_t a = 0; a < cpus_.size(); ++a) {
      for (std::size_t b = a + 1; b < cpus_.size() && b / host == a / host; ++b) {
        blueprint_.cable(cpus_[a], cpus_[b], wire);
      }
    }
  }

  void join_host_side() {
    const Wire pcie{.kind = LinkKind::Pcie,
                    .capacity = node_.pcie,
                    .nominal = node_.pcie_nominal,
                    .latency = node_.pcie_latency};
    const Wire chip{.kind = LinkKind::ChipToChip,
                    .capacity = node_.chip_to_chip,
                    .nominal = node_.chip_to_chip_nominal,
                    .latency = node_.pcie_latency};
    for (std::size_t i = 0; i < switches_.size(); ++i) {
      blueprint_.cable(switches_[i], cpu_of(i * node_.gpus_per_pcie_switch), pcie);
    }
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      if (!switches_.empty()) blueprint_.cable(gpus_[i], switch_of(i), pcie_of(i, pcie));
      if (node_.chip_to_chip.value() > 0.0) blueprint_.cable(gpus_[i], cpu_of(i), chip);
    }
    for (std::size_t i = 0; i < nics_.size(); ++i) {
      // A NIC is connected at the first of the GPUs that it serves.
      const std::size_t gpu = i * node_.gpus / node_.nics;
      blueprint_.cable(nics_[i], switches_.empty() ? cpu_of(gpu) : switch_of(gpu), pcie);
    }
  }

  // Returns the wire of a GPU to its switch, with the card's rate where that differs from the
  // node's.
  [[nodiscard]] Wire pcie_of(std::size_t gpu, Wire wire) const {
    const OtherGpus* other = other_gpus(node_, static_cast<std::uint32_t>(gpu));
    if (other == nullptr || other->pcie.value() <= 0.0) return wire;
    wire.capacity = other->pcie;
    wire.nominal = other->pcie_nominal;
    return wire;
  }

  [[nodiscard]] DeviceId cpu_of(std::size_t gpu) const { return cpus_[gpu / node_.gpus_per_cpu]; }
  [[nodiscard]] DeviceId switch_of(std::size_t gpu) const {
    return switches_[gpu / node_.gpus_per_pcie_switch];
  }

  const NodeSpec& node_;
  Blueprint blueprint_;
  std::vector<DeviceId> gpus_;
  std::vector<DeviceId> cpus_;
  std::vector<DeviceId> switches_;
  std::vector<DeviceId> nics_;
};

// Reduces the NVLink rate to the wires to the remaining peers: a GPU of a full mesh has a wire to
// each peer.
void keep_wires(NodeSpec& node, std::uint32_t peers, std::uint32_t before) {
  if (peers == 0) {
    node.scale_up = NodeSpec::ScaleUp::None;
    return;
  }
  const double share = static_cast<double>(peers) / before;
  node.nvlink = node.nvlink * share;
  node.nvlink_nominal = node.nvlink_nominal * share;
  node.nvlinks = std::max<std::uint32_t>(node.nvlinks * peers / before, 1);
}

}  // namespace

GpuKind gpu_kind(const NodeSpec& node, std::uint32_t gpu) {
  const OtherGpus* other = other_gpus(node, gpu);
  if (other != nullptr) return other->kind;
  return {.profile = node.gpu, .memory = node.gpu_memory};
}

void clear_if_uniform(ClusterFacts& facts) {
  const GpuKind usual{.profile = facts.gpu, .memory = facts.gpu_memory};
  const auto differs = [&](const GpuKind& kind) { return kind != usual; };
  if (std::ranges::none_of(facts.mixed_gpus, differs)) facts.mixed_gpus.clear();
}

// Keeps proportions where it can: NICs and CPUs serve a number of GPUs that divides the new number.
// 6 of 8 GPUs with 8 NICs and 4 GPUs a CPU: 6 NICs, and 3 GPUs a CPU, because 4 does not divide 6.
NodeSpec part_of(NodeSpec node, std::uint32_t gpus) {
  const std::uint32_t whole = node.gpus;
  if (gpus == whole) return node;
  const auto divisor_up_to = [gpus](std::uint32_t most) {
    std::uint32_t divisor = std::clamp<std::uint32_t>(most, 1, gpus);
    while (gpus % divisor != 0) --divisor;
    return divisor;
  };
  node.gpus = gpus;
  // Rounds up, so that a part of a node with NICs has at least one.
  if (node.nics > 0) node.nics = divisor_up_to((node.nics * gpus + whole - 1) / whole);
  if (node.gpus_per_pcie_switch > 0)
    node.gpus_per_pcie_switch = std::gcd(gpus, node.gpus_per_pcie_switch);
  node.gpus_per_cpu = divisor_up_to(node.gpus_per_cpu);
  if (node.scale_up == NodeSpec::ScaleUp::Torus) node.scale_up_dims = balanced_dims(gpus, 3);
  if (node.scale_up == NodeSpec::ScaleUp::FullMesh) keep_wires(node, gpus - 1, whole - 1);
  for (OtherGpus& other : node.other_gpus)
    std::erase_if(other.gpus, [gpus](std::uint32_t one) { return one >= gpus; });
  std::erase_if(node.other_gpus, [](const OtherGpus& other) { return other.gpus.empty(); });
  return node;
}

DrawnNode draw_node(const NodeSpec& node) { return NodeDraft(node).draw(); }

}  // namespace trainyard
