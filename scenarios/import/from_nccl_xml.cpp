#include "scenarios/import/from_nccl_xml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "scenarios/import/nccl_rates.hpp"
#include "sim/base/error.hpp"
#include "sim/base/xml.hpp"

namespace trainyard {

namespace {

constexpr std::string_view kSwitchClass = "0x068000";
constexpr double kGiga = 1e9;
constexpr double kDefaultSpeed = 10000.0;  // Mb/s of a net that does not tell

constexpr double kAttributeMost = 1e6;

// The fallback where the attribute does not begin with a finite number that is not negative.
double number(const XmlElement& element, const char* name, double fallback) {
  const std::string text = element.attribute(name);
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && std::isfinite(value) && value >= 0.0 ? value : fallback;
}

std::uint32_t count_of(const XmlElement& element, const char* name, double fallback) {
  return static_cast<std::uint32_t>(std::min(number(element, name, fallback), kAttributeMost));
}

class Reader {
 public:
  explicit Reader(const std::string& file) { node_.file = file; }

  ImportedNode read(const XmlElement& system) {
    for (const XmlElement& cpu : system.children)
      if (cpu.name == "cpu") read_cpu(cpu);
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
    const XmlElement* element = nullptr;
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

  void read_cpu(const XmlElement& cpu) {
    const std::size_t part = add(DeviceKind::Cpu, "cpu");
    cpus_.emplace_back(part,
                       nccl_rates::CpuName{.arch = cpu.attribute("arch"),
                                           .vendor = cpu.attribute("vendor"),
                                           .family = static_cast<int>(count_of(cpu, "familyid", 0)),
                                           .model = static_cast<int>(count_of(cpu, "modelid", 0))});
    read_children(cpu, part, part, "");
  }

  // `above`: the PCIe switch or CPU; `device`: the id of that switch.
  void read_children(const XmlElement& element, std::size_t above, std::size_t cpu,
                     const std::string& device) {
    for (const XmlElement& child : element.children)
      if (child.name == "pci")
        read_pci(child, above, cpu, device);
      else if (child.name == "nic")
        read_nic(child, above, BytesPerSecond{5000.0 * kGiga});
  }

  void read_pci(const XmlElement& pci, std::size_t above, std::size_t cpu,
                const std::string& device) {
    const BytesPerSecond rate =
        nccl_rates::pcie_rate(pci.attribute("link_speed"), count_of(pci, "link_width", 0));
    const XmlElement* gpu = pci.child("gpu");
    const XmlElement* nic = pci.child("nic");
    if (gpu != nullptr) {
      read_gpu(pci, *gpu, above, cpu, rate);
    } else if (nic != nullptr) {
      read_nic(*nic, above, rate);
    } else {
      const std::string own = pci.attribute("device");
      const bool same_switch = !own.empty() && own == device;
      if (pci.child("pci") == nullptr) return;  // nothing that matters hangs on it
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
    node_.parts[part].gpu = nccl_rates::gpu_of_device(pci.attribute("device"));
    if (gpus_.size() == 1) node_.gpu = node_.parts[part].gpu;
  }

  void read_nic(const XmlElement& nic, std::size_t above, BytesPerSecond rate) {
    for (const XmlElement& net : nic.children) {
      if (net.name != "net" || net.attribute("dev").empty()) continue;
      const std::size_t part = add(DeviceKind::Nic, "nic");
      wire(part, above, LinkKind::Pcie, rate);
      const double speed = number(net, "speed", 0.0);
      node_.ports.push_back((speed <= 0.0 ? kDefaultSpeed : speed) / 8000.0 * kGiga);
    }
  }

  void read_nvlinks() {
    std::optional<std::size_t> hub;
    for (const Gpu& gpu : gpus_) {
      const std::uint32_t sm = count_of(*gpu.element, "sm", 0);
      const BytesPerSecond each = nccl_rates::nvlink_rate(sm);
      std::uint32_t to_switches = 0;
      for (const XmlElement& link : gpu.element->children) {
        const std::uint32_t links = std::max(count_of(link, "count", 1.0), 1U);
        if (link.name == "c2c")
          wire(gpu.part, gpu.cpu, LinkKind::ChipToChip,
               BytesPerSecond{number(link, "bw", 0.0) * links / 1000.0 * kGiga});
        if (link.name != "nvlink") continue;
        if (link.attribute("tclass") == kSwitchClass) {
          to_switches += links;
          continue;
        }
        const auto peer = std::ranges::find(gpus_, link.attribute("target"), &Gpu::busid);
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
  const std::string remedy = "give the file that NCCL wrote with NCCL_TOPO_DUMP_FILE";
  const XmlElement system = parse_xml(file, text, remedy);
  if (system.name != "system")
    throw InputError(Problem{file, "", "has no <system>: it is no topology of NCCL's", remedy});
  ImportedNode node = Reader(file).read(system);
  if (std::ranges::none_of(
          node.parts, [](const ImportedNode::Part& part) { return part.kind == DeviceKind::Gpu; }))
    throw InputError(Problem{file, "", "has no <gpu> with a rank",
                             "dump it from a run on the GPUs; those without a rank do not count"});
  return node;
}

}  // namespace trainyard
