#include "topologies/from_nccl_xml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <map>
#include <sstream>

#include "sim/base/error.hpp"
#include "topologies/nccl_rates.hpp"

namespace trainyard {

namespace {

using Tree = boost::property_tree::ptree;

constexpr std::string_view kSwitchClass = "0x068000";
constexpr double kGiga = 1e9;
constexpr double kDefaultSpeed = 10000.0;  // Mb/s of a net that does not tell

std::string attribute(const Tree& element, const char* name) {
  return element.get<std::string>(std::string("<xmlattr>.") + name, "");
}

double number(const Tree& element, const char* name, double fallback) {
  try {
    const std::string text = attribute(element, name);
    return text.empty() ? fallback : std::stod(text);
  } catch (const std::exception&) {
    return fallback;
  }
}

class Reader {
 public:
  explicit Reader(const std::string& file) { node_.file = file; }

  ImportedNode read(const Tree& system) {
    for (const auto& [name, cpu] : system)
      if (name == "cpu") read_cpu(cpu);
    for (std::size_t a = 0; a < cpus_.size(); ++a)
      for (std::size_t b = a + 1; b < cpus_.size(); ++b)
        wire(cpus_[a].first, cpus_[b].first, LinkKind::Socket,
             nccl_rates::socket_rate(cpus_[a].second));
    read_nvlinks();
    return std::move(node_);
  }

 private:
  struct Gpu {
    std::size_t part = 0;
    std::string busid;
    const Tree* element = nullptr;
    std::size_t cpu = 0;
  };

  std::size_t add(DeviceKind kind, std::string_view word) {
    const std::size_t number = count_.at(static_cast<std::size_t>(kind))++;
    node_.parts.push_back({.kind = kind, .name = fmt::format("{} {}", word, number)});
    return node_.parts.size() - 1;
  }

  void wire(std::size_t from, std::size_t to, LinkKind kind, BytesPerSecond rate,
            std::uint32_t cables = 1) {
    node_.wires.push_back(
        {.from = from, .to = to, .kind = kind, .capacity = rate, .cables = cables});
  }

  void read_cpu(const Tree& cpu) {
    const std::size_t part = add(DeviceKind::Cpu, "cpu");
    cpus_.emplace_back(part,
                       nccl_rates::CpuName{.arch = attribute(cpu, "arch"),
                                           .vendor = attribute(cpu, "vendor"),
                                           .family = static_cast<int>(number(cpu, "familyid", 0)),
                                           .model = static_cast<int>(number(cpu, "modelid", 0))});
    read_children(cpu, part, part, "");
  }

  // `above`: the PCIe switch or CPU; `device`: the id of that switch.
  void read_children(const Tree& element, std::size_t above, std::size_t cpu,
                     const std::string& device) {
    for (const auto& [name, child] : element)
      if (name == "pci")
        read_pci(child, above, cpu, device);
      else if (name == "nic")
        read_nic(child, above, BytesPerSecond{5000.0 * kGiga});
  }

  void read_pci(const Tree& pci, std::size_t above, std::size_t cpu, const std::string& device) {
    const BytesPerSecond rate = nccl_rates::pcie_rate(
        attribute(pci, "link_speed"), static_cast<std::uint32_t>(number(pci, "link_width", 0)));
    const auto gpu = pci.get_child_optional("gpu");
    const auto nic = pci.get_child_optional("nic");
    if (gpu) {
      read_gpu(pci, *gpu, above, cpu, rate);
    } else if (nic) {
      read_nic(*nic, above, rate);
    } else {
      const std::string own = attribute(pci, "device");
      const bool same_switch = !own.empty() && own == device;
      if (pci.find("pci") == pci.not_found()) return;  // nothing that matters hangs on it
      const std::size_t part = same_switch ? above : add(DeviceKind::PcieSwitch, "pcie switch");
      if (!same_switch) wire(part, above, LinkKind::Pcie, rate);
      read_children(pci, part, cpu, own);
    }
  }

  void read_gpu(const Tree& pci, const Tree& gpu, std::size_t above, std::size_t cpu,
                BytesPerSecond rate) {
    if (attribute(gpu, "rank").empty()) return;
    const std::size_t part = add(DeviceKind::Gpu, "gpu");
    wire(part, above, LinkKind::Pcie, rate);
    gpus_.push_back({.part = part, .busid = attribute(pci, "busid"), .element = &gpu, .cpu = cpu});
    node_.parts[part].gpu = nccl_rates::gpu_of_device(attribute(pci, "device"));
    if (gpus_.size() == 1) node_.gpu = node_.parts[part].gpu;
  }

  void read_nic(const Tree& nic, std::size_t above, BytesPerSecond rate) {
    for (const auto& [name, net] : nic) {
      if (name != "net" || attribute(net, "dev").empty()) continue;
      const std::size_t part = add(DeviceKind::Nic, "nic");
      wire(part, above, LinkKind::Pcie, rate);
      const double speed = number(net, "speed", 0.0);
      node_.ports.push_back((speed <= 0.0 ? kDefaultSpeed : speed) / 8000.0 * kGiga);
    }
  }

  void read_nvlinks() {
    std::optional<std::size_t> hub;
    for (const Gpu& gpu : gpus_) {
      const auto sm = static_cast<std::uint32_t>(number(*gpu.element, "sm", 0));
      const BytesPerSecond each = nccl_rates::nvlink_rate(sm);
      std::uint32_t to_switches = 0;
      for (const auto& [name, link] : *gpu.element) {
        const auto links = static_cast<std::uint32_t>(std::max(number(link, "count", 1.0), 1.0));
        if (name == "c2c")
          wire(gpu.part, gpu.cpu, LinkKind::ChipToChip,
               BytesPerSecond{number(link, "bw", 0.0) * links / 1000.0 * kGiga});
        if (name != "nvlink") continue;
        if (attribute(link, "tclass") == kSwitchClass) {
          to_switches += links;
          continue;
        }
        const auto peer = std::ranges::find(gpus_, attribute(link, "target"), &Gpu::busid);
        if (peer != gpus_.end() && gpu.part < peer->part)
          wire(gpu.part, peer->part, LinkKind::NvLink, each * links, links);
      }
      if (to_switches == 0) continue;
      if (!hub) hub = add(DeviceKind::NvSwitch, "nvswitch");
      wire(gpu.part, *hub, LinkKind::NvLink, each * to_switches, to_switches);
    }
  }

  ImportedNode node_;
  std::array<std::size_t, kDeviceKinds> count_{};
  std::vector<std::pair<std::size_t, nccl_rates::CpuName>> cpus_;
  std::vector<Gpu> gpus_;
};

}  // namespace

ImportedNode from_nccl_xml(const std::string& text, const std::string& file) {
  Tree tree;
  try {
    std::istringstream stream(text);
    boost::property_tree::read_xml(stream, tree);
  } catch (const boost::property_tree::xml_parser_error& error) {
    throw InputError(Problem{file, fmt::format("line {}", error.line()),
                             "is not well-formed XML: " + error.message(),
                             "give the file that NCCL wrote with NCCL_TOPO_DUMP_FILE"});
  }
  const auto system = tree.get_child_optional("system");
  if (!system)
    throw InputError(Problem{file, "", "has no <system>: it is no topology of NCCL's",
                             "give the file that NCCL wrote with NCCL_TOPO_DUMP_FILE"});
  ImportedNode node = Reader(file).read(*system);
  if (std::ranges::none_of(
          node.parts, [](const ImportedNode::Part& part) { return part.kind == DeviceKind::Gpu; }))
    throw InputError(Problem{file, "", "has no <gpu> with a rank",
                             "dump it from a run on the GPUs; those without a rank do not count"});
  return node;
}

}  // namespace trainyard
