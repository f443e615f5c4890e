// One node of a cluster in the form that from_nccl_xml.cpp reads.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "scenarios/import/from_nccl_xml.hpp"
#include "scenarios/import/nccl_rates.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

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
                "write the cluster as JSON: trainyard show topology --json"});
  }

  void write_cpu(DeviceId cpu) {
    nccl_rates::CpuName name;
    for (const Link& link : links(cpu, LinkKind::Socket)) {
      const auto known = nccl_rates::cpu_of_rate(link.capacity);
      if (!known) refuse(link);
      name = *known;
    }
    text_ += fmt::format(
        "  <cpu numaid=\"{}\" arch=\"{}\" vendor=\"{}\" familyid=\"{}\" modelid=\"{}\">\n",
        cluster_.device(cpu).index, name.arch, name.vendor, name.family, name.model);
    write_children(cpu, 2);
    text_ += "  </cpu>\n";
  }

  void write_children(DeviceId above, std::size_t depth) {
    written_.insert(above);
    for (const Link& link : links(above, LinkKind::Pcie)) {
      if (!written_.insert(link.to).second) continue;
      const auto pcie = nccl_rates::pcie_link(link.capacity);
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

  // A number of its own for a switch: levels of one switch have the same.
  std::string device_id(DeviceId device) const {
    const DeviceKind kind = cluster_.device(device).kind;
    if (kind == DeviceKind::PcieSwitch) return fmt::format("0x{:04x}", device);
    const auto& gpus = cluster_.gpus();
    const auto place = std::ranges::find(gpus, device);
    if (place == gpus.end()) return "0x0000";
    const auto gpu = static_cast<std::uint32_t>(place - gpus.begin());
    const std::string_view known = nccl_rates::device_of_gpu(cluster_.gpu_kind(gpu).profile);
    return known.empty() ? "0x0000" : std::string(known);
  }

  void write_gpu(DeviceId gpu, const std::string& pad) {
    const std::vector<Link> wires = links(gpu, LinkKind::NvLink);
    std::uint32_t sm = 90;
    for (const Link& link : wires) {
      const auto known = nccl_rates::sm_of_rate(link.capacity / link.cables);
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
