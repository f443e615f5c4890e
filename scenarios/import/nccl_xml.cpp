#include "scenarios/import/nccl_xml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "sim/base/error.hpp"
#include "sim/base/units.hpp"
#include "sim/base/xml.hpp"

namespace trainyard {

namespace {

// The rates that NCCL assigns to links, and the inverse: nvlink_rate(90) is 20.6 GB/s per link,
// pcie_rate("32.0 GT/s PCIe", 16) is 48 GB/s.

struct PcieLink {
  std::string speed;
  std::uint32_t width = 16;
};

// A CPU model, which determines the rate between two CPUs (src/graph/topo.h, topo.cc).
struct CpuName {
  std::string arch = "x86_64";
  std::string vendor = "GenuineIntel";
  int family = 6;
  int model = 143;
};

constexpr double kGiga = 1e9;
constexpr double kTolerance = 1e-6;  // relative, for rates that were written as text

// The rate of one NVLink in GB/s, by compute capability times ten.
struct NvLink {
  std::uint32_t sm;
  double gigabytes;
};
constexpr std::array<NvLink, 6> kNvLinks = {
    {{60, 18.0}, {70, 20.0}, {80, 20.0}, {86, 12.0}, {90, 20.6}, {100, 40.1}}};

struct Lane {
  std::string_view speed;
  double rate;  // in units of 100 Mb/s
};
constexpr std::array<Lane, 6> kLanes = {{{"2.5 GT/s PCIe", 15.0},
                                         {"5.0 GT/s PCIe", 30.0},
                                         {"8.0 GT/s PCIe", 60.0},
                                         {"16.0 GT/s PCIe", 120.0},
                                         {"32.0 GT/s PCIe", 240.0},
                                         {"64.0 GT/s PCIe", 480.0}}};
constexpr double kUnknownLane = 60.0;
constexpr std::uint32_t kUnknownWidth = 16;

// PCI device ids and GPU profiles. The writer uses the first id of a profile.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kProfiles = {{
    {"0x1db1", "v100"},
    {"0x1db5", "v100"},
    {"0x20b0", "a100_40gb"},
    {"0x20b2", "a100_80gb"},
    {"0x2324", "h800"},
    {"0x2330", "h100"},
    {"0x2335", "h200"},
    {"0x2336", "h100"},
    {"0x2901", "b200"},
    {"0x2941", "gb200"},
    {"0x3182", "b300"},
    {"0x26b9", "l40s"},
}};

bool equal(double a, double b) { return std::abs(a - b) <= kTolerance * std::abs(b); }

// Returns the number in "32.0 GT/s PCIe" or "32 GT/s".
std::optional<double> transfers(std::string_view speed) {
  double number = 0.0;
  const auto read = std::from_chars(speed.data(), speed.data() + speed.size(), number);
  if (read.ec != std::errc() || !std::isfinite(number) || number <= 0.0) return {};
  return number;
}

// Returns the rate of one NVLink, one direction, by compute capability times ten (NVIDIA/nccl v2.30
// src/graph/topo.h).
BytesPerSecond nvlink_rate(std::uint32_t sm) {
  double rate = kNvLinks.front().gigabytes;
  for (const NvLink& link : kNvLinks) {
    const bool own_only = link.sm == 86;  // for these chips only, not for later ones
    if (own_only ? sm == link.sm || sm == 89 : sm >= link.sm) rate = link.gigabytes;
  }
  return BytesPerSecond{rate * kGiga};
}

// Returns the compute capability whose links have that rate; 80 for 20 GB/s, which 70 has, too.
std::optional<std::uint32_t> sm_of_rate(BytesPerSecond rate) {
  for (auto link = kNvLinks.rbegin(); link != kNvLinks.rend(); ++link)
    if (link->sm != 70 && equal(rate.value(), link->gigabytes * kGiga)) return link->sm;
  return {};
}

// Returns width x lane rate / 80, with lane rates in 100 Mb/s (src/graph/topo.cc). An unknown speed
// counts as 8 GT/s, a width of zero as 16.
BytesPerSecond pcie_rate(std::string_view speed, std::uint32_t width) {
  double lane = kUnknownLane;
  if (const auto number = transfers(speed))
    for (const Lane& known : kLanes)
      if (equal(*number, *transfers(known.speed))) lane = known.rate;
  return BytesPerSecond{(width == 0 ? kUnknownWidth : width) * lane / 80.0 * kGiga};
}

// Returns the link with that rate, as files write it; nothing where there is none. Several links
// have one rate (x16 at 16 GT/s and x8 at 32 GT/s): the usual width is tried first.
std::optional<PcieLink> pcie_link(BytesPerSecond rate) {
  for (const std::uint32_t width : {16U, 8U, 4U, 2U, 1U, 32U})
    for (const Lane& lane : kLanes)
      if (equal(rate.value(), pcie_rate(lane.speed, width).value()))
        return PcieLink{.speed = std::string(lane.speed), .width = width};
  return {};
}

// The rates in GB/s by vendor and model of the CPU; later models are faster.
BytesPerSecond socket_rate(const CpuName& cpu) {
  double rate = 6.0;
  if (cpu.arch == "ppc64") rate = 32.0;
  if (cpu.vendor == "AuthenticAMD") rate = 16.0;
  if (cpu.vendor == "GenuineIntel" && cpu.family == 6) {
    if (cpu.model >= 0x55) rate = 10.0;
    if (cpu.model >= 0x8F) rate = 22.0;
    if (cpu.model >= 0xCF) rate = 40.0;
  }
  return BytesPerSecond{rate * kGiga};
}

std::optional<CpuName> cpu_of_rate(BytesPerSecond rate) {
  const std::array<CpuName, 6> known = {{{"x86_64", "GenuineIntel", 6, 143},
                                         {"x86_64", "AuthenticAMD", 175, 1},
                                         {"x86_64", "GenuineIntel", 6, 0xCF},
                                         {"x86_64", "GenuineIntel", 6, 0x55},
                                         {"x86_64", "GenuineIntel", 6, 0x4F},
                                         {"ppc64", "IBM", 0, 0}}};
  for (const CpuName& cpu : known)
    if (equal(rate.value(), socket_rate(cpu).value())) return cpu;
  return {};
}

// Return the GPU profile of a PCI device id such as "0x2330" (the PCI ID database of Nvidia's
// GPUs), and the inverse; empty where the id or profile is not known.
std::string_view gpu_of_device(std::string_view id) {
  for (const auto& [device, profile] : kProfiles)
    if (device == id) return profile;
  return {};
}

std::string_view device_of_gpu(std::string_view profile) {
  for (const auto& [device, known] : kProfiles)
    if (known == profile) return device;
  return {};
}

constexpr std::string_view kSwitchClass = "0x068000";
constexpr double kDefaultSpeed = 10000.0;  // Mb/s of a net without a speed

constexpr double kCountMost = 1e6;
constexpr double kRateMost = 1e9;  // Mb/s or MB/s

// The parts and wires of a node while a reader collects them.
class NodeParts {
 protected:
  // Returns the fallback where the element has no such attribute. Throws InputError where it is no
  // number from `least` to `most`.
  [[nodiscard]] double attribute_number(const XmlElement& element, const char* name,
                                        double fallback, double least, double most) const {
    const std::string text = element.attribute(name);
    if (text.empty()) return fallback;
    double value = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    if (whole && value >= least && value <= most) return value;
    throw InputError(Problem{node_.file, fmt::format("line {}", element.line),
                             fmt::format("{} of <{}> is \"{}\", no number from {} to {}", name,
                                         element.name, text, least, most),
                             "correct it, or leave the attribute out"});
  }

  [[nodiscard]] std::uint32_t count_of(const XmlElement& element, const char* name,
                                       double fallback) const {
    return static_cast<std::uint32_t>(attribute_number(element, name, fallback, 0.0, kCountMost));
  }

  // Names the part by its number among those of its kind ("gpu 3"). Returns its index.
  std::size_t add(DeviceKind kind, std::string_view word) {
    const auto number = std::count_if(node_.parts.begin(), node_.parts.end(),
                                      [&](const auto& part) { return part.kind == kind; });
    node_.parts.push_back({.kind = kind, .name = fmt::format("{} {}", word, number)});
    return node_.parts.size() - 1;
  }

  void wire(std::size_t from, std::size_t to, LinkKind kind, BytesPerSecond rate,
            std::uint32_t cables = 1) {
    node_.wires.push_back(
        {.from = from, .to = to, .kind = kind, .capacity = rate, .cables = cables});
  }

  ImportedNode node_ = {};
};

class Reader : private NodeParts {
 public:
  Reader(const std::string& file, const NodeHints& hints) : hints_(hints) { node_.file = file; }

  ImportedNode read(const XmlElement& system) {
    for (const XmlElement& cpu : system.children)
      if (cpu.name == "cpu") read_cpu(cpu);
    for (std::size_t a = 0; a < cpus_.size(); ++a)
      for (std::size_t b = a + 1; b < cpus_.size(); ++b)
        wire(cpus_[a].first, cpus_[b].first, LinkKind::Socket, socket_rate(cpus_[a].second));
    read_nvlinks();
    list_assumptions();
    return std::move(node_);
  }

 private:
  struct Gpu {
    std::size_t part = 0;
    std::string busid;
    const XmlElement* element = nullptr;
    std::size_t cpu = 0;
  };

  void read_cpu(const XmlElement& cpu) {
    const std::size_t part = add(DeviceKind::Cpu, "cpu");
    cpus_.emplace_back(part, CpuName{.arch = cpu.attribute("arch"),
                                     .vendor = cpu.attribute("vendor"),
                                     .family = static_cast<int>(count_of(cpu, "familyid", 0)),
                                     .model = static_cast<int>(count_of(cpu, "modelid", 0))});
    read_children(cpu, part, part, "");
  }

  // `above` is the PCIe switch or CPU; `device` is the id of that switch.
  void read_children(const XmlElement& element, std::size_t above, std::size_t cpu,
                     const std::string& device) {
    for (const XmlElement& child : element.children)
      if (child.name == "pci")
        read_pci(child, above, cpu, device);
      else if (child.name == "nic")
        // A <nic> without a <pci> of its own is local to the device above: NCCL counts 5000 GB/s.
        read_nic(child, above, BytesPerSecond{5000.0 * kGiga});
  }

  // A pci element is a GPU, a NIC, or a level of a PCIe switch. Levels with the device id of the
  // level above belong to the same switch.
  void read_pci(const XmlElement& pci, std::size_t above, std::size_t cpu,
                const std::string& device) {
    const BytesPerSecond rate =
        pcie_rate(pci.attribute("link_speed"), count_of(pci, "link_width", 0));
    const XmlElement* gpu = pci.child("gpu");
    const XmlElement* nic = pci.child("nic");
    if (gpu != nullptr) {
      read_gpu(pci, *gpu, above, cpu, rate);
    } else if (nic != nullptr) {
      read_nic(*nic, above, rate);
    } else {
      const std::string own = pci.attribute("device");
      const bool same_switch = !own.empty() && own == device;
      if (pci.child("pci") == nullptr) return;  // no relevant device below
      const std::size_t part = same_switch ? above : add(DeviceKind::PcieSwitch, "pcie switch");
      if (!same_switch) wire(part, above, LinkKind::Pcie, rate);
      read_children(pci, part, cpu, own);
    }
  }

  void read_gpu(const XmlElement& pci, const XmlElement& gpu, std::size_t above, std::size_t cpu,
                BytesPerSecond rate) {
    if (gpu.attribute("rank").empty()) return;
    const std::size_t part = add(DeviceKind::Gpu, "gpu");
    wire(part, above, LinkKind::Pcie, rate);
    gpus_.push_back({.part = part, .busid = pci.attribute("busid"), .element = &gpu, .cpu = cpu});
    node_.parts[part].gpu = gpu_of_device(pci.attribute("device"));
    if (gpus_.size() == 1) node_.gpu = node_.parts[part].gpu;
  }

  void read_nic(const XmlElement& nic, std::size_t above, BytesPerSecond rate) {
    for (const XmlElement& net : nic.children) {
      if (net.name != "net" || net.attribute("dev").empty()) continue;
      const std::size_t part = add(DeviceKind::Nic, "nic");
      wire(part, above, LinkKind::Pcie, rate);
      // Some NICs have a speed of -1, which is none for NCCL.
      const double speed = attribute_number(net, "speed", 0.0, -1.0, kRateMost);
      if (speed <= 0.0) ++without_speed_;
      // A speed is in Mb/s; divided by 8000 it is in GB/s.
      node_.ports.push_back(hints_.nic ? hints_.nic->value()
                                       : (speed <= 0.0 ? kDefaultSpeed : speed) / 8000.0 * kGiga);
    }
  }

  void list_assumptions() {
    if (hints_.nic && !node_.ports.empty())
      node_.assumed.push_back(
          fmt::format("every NIC has {}, as --nic says", nic_rate_text(*hints_.nic)));
    else if (without_speed_ > 0)
      node_.assumed.push_back(
          fmt::format("{} NICs have no speed in the file and get NCCL's default of 10 Gb/s (name "
                      "theirs with --nic)",
                      without_speed_));
  }

  // All NVSwitches of a node become one device, to which each GPU has one wire with its number of
  // links.
  void read_nvlinks() {
    std::optional<std::size_t> hub;
    for (const Gpu& gpu : gpus_) {
      const std::uint32_t sm = count_of(*gpu.element, "sm", 0);
      const BytesPerSecond each = nvlink_rate(sm);
      std::uint32_t to_switches = 0;
      for (const XmlElement& link : gpu.element->children) {
        const std::uint32_t links = count_of(link, "count", 1.0);
        if (links == 0) continue;
        // NCCL counts bw x count / 1000 GB/s between a GPU and its CPU.
        if (link.name == "c2c")
          wire(gpu.part, gpu.cpu, LinkKind::ChipToChip,
               BytesPerSecond{attribute_number(link, "bw", 0.0, 0.0, kRateMost) * links / 1000.0 *
                              kGiga});
        if (link.name != "nvlink") continue;
        if (link.attribute("tclass") == kSwitchClass) {
          to_switches += links;
          continue;
        }
        const auto peer = std::ranges::find(gpus_, link.attribute("target"), &Gpu::busid);
        // Both GPUs list the link; the one with the lower number adds the wire.
        if (peer != gpus_.end() && gpu.part < peer->part)
          wire(gpu.part, peer->part, LinkKind::NvLink, each * links, links);
      }
      if (to_switches == 0) continue;
      if (!hub) hub = add(DeviceKind::NvSwitch, "nvswitch");
      wire(gpu.part, *hub, LinkKind::NvLink, each * to_switches, to_switches);
    }
  }

  const NodeHints& hints_;
  std::vector<std::pair<std::size_t, CpuName>> cpus_;
  std::vector<Gpu> gpus_;
  std::size_t without_speed_ = 0;  // number of NICs
};

// The numbers of devices that a file lists, at any depth.
struct Listed {
  std::size_t ranks = 0;     // GPUs with a rank
  std::size_t pci_gpus = 0;  // PCI devices by their class
  std::size_t pci_nics = 0;
};

enum class PciDevice : std::uint8_t { Bridge, Gpu, Nic, Other };

// The kind of a PCI device by its class code (PCI Code and ID Assignment Specification): 0x0302 is
// a 3D controller, 0x02 a network controller (0x0200 Ethernet, 0x0207 InfiniBand). A device with
// others below it is a bridge, which some files give no class.
PciDevice pci_device(const XmlElement& pci) {
  if (pci.child("pci") != nullptr) return PciDevice::Bridge;
  const std::string code = pci.attribute("class");
  if (pci.child("gpu") != nullptr || code.starts_with("0x0302")) return PciDevice::Gpu;
  if (pci.child("nic") != nullptr || code.starts_with("0x02")) return PciDevice::Nic;
  return PciDevice::Other;
}

void count_devices(const XmlElement& element, Listed& listed) {
  for (const XmlElement& child : element.children) {
    if (child.name == "gpu" && !child.attribute("rank").empty()) ++listed.ranks;
    if (child.name == "pci") {
      const PciDevice device = pci_device(child);
      listed.pci_gpus += device == PciDevice::Gpu ? 1 : 0;
      listed.pci_nics += device == PciDevice::Nic ? 1 : 0;
    }
    count_devices(child, listed);
  }
}

[[noreturn]] void refuse_without_ranks(const std::string& file, const Listed& listed) {
  if (listed.pci_gpus > 0)
    throw InputError(
        Problem{file, "",
                fmt::format("lists {} GPUs as PCI devices, without ranks and NVLinks: it is a "
                            "partial file, as clouds give them for NCCL_TOPO_FILE",
                            listed.pci_gpus),
                "say which GPU it is: --gpu h100 (trainyard list gpus), or dump the whole with "
                "NCCL_TOPO_DUMP_FILE"});
  if (listed.pci_nics > 0)
    throw InputError(
        Problem{file, "",
                fmt::format("lists {} NICs and no GPU: NCCL looks its GPUs up on the machine",
                            listed.pci_nics),
                "dump the whole from a run on the GPUs with NCCL_TOPO_DUMP_FILE"});
  throw InputError(Problem{file, "", "has no <gpu> with a rank",
                           "dump it from a run on the GPUs; those without a rank do not count"});
}

// Reads a partial file: devices by their PCI class, and what is missing from the node type with the
// same GPU.
class PartialReader : private NodeParts {
 public:
  PartialReader(const std::string& file, const NodeHints& hints)
      : hints_(hints), like_(node_with_gpu(hints.gpu, file)) {
    node_.file = file;
    node_.gpu = like_.gpu;
  }

  ImportedNode read(const XmlElement& system) {
    for (const XmlElement& cpu : system.children)
      if (cpu.name == "cpu") read_cpu(cpu);
    for (std::size_t a = 0; a < cpus_.size(); ++a)
      for (std::size_t b = a + 1; b < cpus_.size(); ++b)
        wire(cpus_[a].part, cpus_[b].part, LinkKind::Socket, cpus_[a].socket);
    join_nvlinks();
    list_assumptions();
    return std::move(node_);
  }

 private:
  struct CpuPart {
    std::size_t part = 0;
    BytesPerSecond socket = {};
  };

  void read_cpu(const XmlElement& cpu) {
    const std::size_t part = add(DeviceKind::Cpu, "cpu");
    const bool named = !cpu.attribute("vendor").empty();
    if (!named) ++unnamed_cpus_;
    const CpuName name{.arch = cpu.attribute("arch"),
                       .vendor = cpu.attribute("vendor"),
                       .family = static_cast<int>(count_of(cpu, "familyid", 0)),
                       .model = static_cast<int>(count_of(cpu, "modelid", 0))};
    cpus_.push_back({.part = part, .socket = named ? socket_rate(name) : like_.socket});
    for (const XmlElement& child : cpu.children)
      if (child.name == "pci") read_pci(child, part);
  }

  // A bridge without a link of its own, as virtual switches are, is as fast as PCIe of the node
  // type, like the devices below it.
  BytesPerSecond rate_of(const XmlElement& pci) {
    if (!pci.attribute("link_speed").empty())
      return pcie_rate(pci.attribute("link_speed"), count_of(pci, "link_width", 0));
    ++without_link_;
    return like_.pcie;
  }

  void read_pci(const XmlElement& pci, std::size_t above) {
    switch (pci_device(pci)) {
      case PciDevice::Bridge: {
        const std::size_t part = add(DeviceKind::PcieSwitch, "pcie switch");
        wire(part, above, LinkKind::Pcie, rate_of(pci));
        for (const XmlElement& child : pci.children)
          if (child.name == "pci") read_pci(child, part);
        return;
      }
      case PciDevice::Gpu:
        gpus_.push_back(add(DeviceKind::Gpu, "gpu"));
        return wire(gpus_.back(), above, LinkKind::Pcie, rate_of(pci));
      case PciDevice::Nic:
        wire(add(DeviceKind::Nic, "nic"), above, LinkKind::Pcie, rate_of(pci));
        node_.ports.push_back(
            usable_nic_rate(hints_.nic.value_or(like_.nic_nominal), like_).value());
        return;
      case PciDevice::Other:
        return;
    }
  }

  // NVLinks as in the node type: to one crossbar, or in a full mesh of equal shares.
  void join_nvlinks() {
    if (like_.scale_up == NodeSpec::ScaleUp::None || gpus_.size() < 2) return;
    if (like_.scale_up == NodeSpec::ScaleUp::NvSwitch) {
      const std::size_t hub = add(DeviceKind::NvSwitch, "nvswitch");
      for (const std::size_t gpu : gpus_)
        wire(gpu, hub, LinkKind::NvLink, like_.nvlink, std::max(like_.nvlinks, 1U));
      return;
    }
    // `nvlink` is the rate of a GPU to all its peers together.
    const std::uint32_t peers = std::max(like_.gpus, 2U) - 1;
    for (std::size_t a = 0; a < gpus_.size(); ++a)
      for (std::size_t b = a + 1; b < gpus_.size(); ++b)
        wire(gpus_[a], gpus_[b], LinkKind::NvLink, like_.nvlink / peers,
             std::max(like_.nvlinks / peers, 1U));
  }

  void list_assumptions() {
    std::vector<std::string>& all = node_.assumed;
    all.push_back(fmt::format(
        "the file is partial: its {} PCI devices of class 0x0302 are GPUs, {} of class 0x02 NICs",
        gpus_.size(), node_.ports.size()));
    if (like_.scale_up != NodeSpec::ScaleUp::None && gpus_.size() > 1)
      all.push_back(fmt::format(
          "NVLink is that of {}: {} for each GPU{}", like_.name, to_text(like_.nvlink),
          gpus_.size() == like_.gpus ? ""
                                     : fmt::format(", though the file has {} GPUs and a {} has {}",
                                                   gpus_.size(), like_.name, like_.gpus)));
    if (!node_.ports.empty())
      all.push_back(
          fmt::format("every NIC has {}{}, {} of it usable",
                      nic_rate_text(hints_.nic.value_or(like_.nic_nominal)),
                      hints_.nic ? ", as --nic says"
                                 : fmt::format(" as in {} (--nic names another rate)", like_.name),
                      to_text(BytesPerSecond{node_.ports.front()})));
    if (without_link_ > 0)
      all.push_back(fmt::format("{} PCI devices have no link_speed and get the {} of {}",
                                without_link_, to_text(like_.pcie), like_.name));
    if (unnamed_cpus_ > 0 && cpus_.size() > 1)
      all.push_back(fmt::format("{} CPUs have no vendor; between CPUs {} as in {}", unnamed_cpus_,
                                to_text(like_.socket), like_.name));
  }

  const NodeHints& hints_;
  NodeSpec like_;
  std::vector<CpuPart> cpus_;
  std::vector<std::size_t> gpus_;
  std::size_t without_link_ = 0;  // number of PCI devices
  std::size_t unnamed_cpus_ = 0;
};

}  // namespace

ImportedNode from_nccl_xml(const std::string& text, const std::string& file,
                           const NodeHints& hints) {
  const std::string remedy = "give the file that NCCL wrote with NCCL_TOPO_DUMP_FILE";
  const XmlElement system = parse_xml(file, text, remedy);
  if (system.name != "system")
    throw InputError(Problem{file, "", "has no <system>: it is no topology of NCCL's", remedy});
  // A dump has GPUs with ranks. A file with PCI devices alone is partial, and needs a named GPU.
  Listed listed;
  count_devices(system, listed);
  if (listed.ranks > 0) {
    ImportedNode node = Reader(file, hints).read(system);
    if (std::ranges::any_of(node.parts, [](const ImportedNode::Part& part) {
          return part.kind == DeviceKind::Gpu;
        }))
      return node;
  }
  if (listed.pci_gpus == 0 || hints.gpu.empty()) refuse_without_ranks(file, listed);
  return PartialReader(file, hints).read(system);
}

namespace {

// Writes one node of a cluster in the format that the reader above accepts.

class Writer {
 public:
  Writer(const Cluster& cluster, std::uint32_t node)
      : cluster_(cluster), node_(static_cast<std::int32_t>(node)) {}

  std::string write() {
    text_ = "<system version=\"1\">\n";
    for (const DeviceId cpu : of_kind(DeviceKind::Cpu)) write_cpu(cpu);
    return std::move(text_) + "</system>\n";
  }

 private:
  std::vector<DeviceId> of_kind(DeviceKind kind) const {
    std::vector<DeviceId> found;
    for (DeviceId id = 0; id < cluster_.device_count(); ++id)
      if (cluster_.device(id).kind == kind && cluster_.device(id).node == node_)
        found.push_back(id);
    return found;
  }

  std::vector<Link> links(DeviceId from, LinkKind kind) const {
    std::vector<Link> found;
    for (const Link link : cluster_.links_from(from))
      if (link.kind == kind) found.push_back(link);
    return found;
  }

  [[noreturn]] void refuse(const Link& link) const {
    throw InputError(
        Problem{"", "",
                fmt::format("the {} link from {} to {} has a rate that NCCL's form cannot say: {}",
                            to_string(link.kind), cluster_.name(link.from), cluster_.name(link.to),
                            to_text(link.capacity)),
                "write the cluster as JSON: trainyard show topology --format json"});
  }

  void write_cpu(DeviceId cpu) {
    CpuName name;
    for (const Link& link : links(cpu, LinkKind::Socket)) {
      const auto known = cpu_of_rate(link.capacity);
      if (!known) refuse(link);
      name = *known;
    }
    text_ += fmt::format(
        "  <cpu numaid=\"{}\" arch=\"{}\" vendor=\"{}\" familyid=\"{}\" modelid=\"{}\">\n",
        cluster_.device(cpu).index, name.arch, name.vendor, name.family, name.model);
    write_children(cpu, 2);
    text_ += "  </cpu>\n";
  }

  // Links have two directions, so `written_` prevents a walk back to the device above.
  void write_children(DeviceId above, std::size_t depth) {
    written_.insert(above);
    for (const Link& link : links(above, LinkKind::Pcie)) {
      if (!written_.insert(link.to).second) continue;
      const auto pcie = pcie_link(link.capacity);
      if (!pcie) refuse(link);
      const DeviceKind kind = cluster_.device(link.to).kind;
      const std::string pad(2 * depth, ' ');
      text_ += fmt::format(
          "{}<pci busid=\"{}\" class=\"{}\" device=\"{}\" link_speed=\"{}\" "
          "link_width=\"{}\">\n",
          pad, busid(link.to),
          kind == DeviceKind::Gpu   ? "0x030200"
          : kind == DeviceKind::Nic ? "0x020700"
                                    : "0x060400",
          device_id(link.to), pcie->speed, pcie->width);
      if (kind == DeviceKind::Gpu)
        write_gpu(link.to, pad + "  ");
      else if (kind == DeviceKind::Nic)
        write_nic(link.to, pad + "  ");
      else
        write_children(link.to, depth + 1);
      text_ += pad + "</pci>\n";
    }
  }

  // Returns a distinct number for each switch, because the reader merges levels with one device id.
  std::string device_id(DeviceId device) const {
    const DeviceKind kind = cluster_.device(device).kind;
    if (kind == DeviceKind::PcieSwitch) return fmt::format("0x{:04x}", device);
    const auto& gpus = cluster_.gpus();
    const auto place = std::ranges::find(gpus, device);
    if (place == gpus.end()) return "0x0000";
    const auto gpu = static_cast<std::uint32_t>(place - gpus.begin());
    const std::string_view known = device_of_gpu(cluster_.gpu_kind(gpu).profile);
    return known.empty() ? "0x0000" : std::string(known);
  }

  // The compute capability is the one whose link rate matches, because the reader derives the rate
  // from it.
  void write_gpu(DeviceId gpu, const std::string& pad) {
    const std::vector<Link> wires = links(gpu, LinkKind::NvLink);
    std::uint32_t sm = 90;
    for (const Link& link : wires) {
      const auto known = sm_of_rate(link.capacity / link.cables);
      if (!known) refuse(link);
      sm = *known;
    }
    const std::int32_t index = cluster_.device(gpu).index;
    text_ +=
        fmt::format("{}<gpu dev=\"{}\" sm=\"{}\" rank=\"{}\" gdr=\"1\">\n", pad, index, sm, index);
    for (const Link& link : wires) {
      const bool to_switch = cluster_.device(link.to).kind == DeviceKind::NvSwitch;
      text_ += fmt::format("{}  <nvlink target=\"{}\" count=\"{}\" tclass=\"{}\"/>\n", pad,
                           to_switch ? "fffffff:ffff:ff" : busid(link.to), link.cables,
                           to_switch ? "0x068000" : "0x030200");
    }
    for (const Link& link : links(gpu, LinkKind::ChipToChip))
      text_ += fmt::format("{}  <c2c bw=\"{}\" count=\"1\"/>\n", pad,
                           link.capacity.value() / 1e9 * 1000.0);
    text_ += pad + "</gpu>\n";
  }

  void write_nic(DeviceId nic, const std::string& pad) {
    double rate = 0.0;
    for (const Link& link : links(nic, LinkKind::NicPort)) rate += link.capacity.value();
    text_ +=
        fmt::format("{}<nic><net name=\"nic_{}\" dev=\"{}\" speed=\"{}\" port=\"1\"/></nic>\n", pad,
                    cluster_.device(nic).index, cluster_.device(nic).index, rate / 1e9 * 8000.0);
  }

  // An address that no other device has, by which GPUs name each other.
  std::string busid(DeviceId device) const {
    return fmt::format("0000:{:02x}:{:02x}.0", device / 32, device % 32);
  }

  const Cluster& cluster_;
  std::int32_t node_;
  std::set<DeviceId> written_;
  std::string text_;
};

}  // namespace

std::string to_nccl_xml(const Cluster& cluster, std::uint32_t node) {
  return Writer(cluster, node).write();
}

}  // namespace trainyard
