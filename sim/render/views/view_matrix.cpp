// Prints the topology of a node as `nvidia-smi topo -m` does (declared in views.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>

#include "sim/base/check.hpp"
#include "sim/render/views/views.hpp"

namespace trainyard {

namespace {

constexpr std::string_view kLegend =
    "\n"
    "  X    the device itself\n"
    "  NV#  # bonded NVLinks (xGMI links on AMD), directly or through NVSwitch\n"
    "  PIX  at most one PCIe switch\n"
    "  PXB  several PCIe switches, no CPU\n"
    "  PHB  PCIe or chip-to-chip links and one CPU\n"
    "  NODE PCIe switches on both sides of one CPU\n"
    "  SYS  the link between CPUs\n"
    "  -    no way inside the node\n";

bool carries(LinkKind kind, bool nvlink) {
  if (nvlink) return kind == LinkKind::NvLink;
  return kind == LinkKind::Pcie || kind == LinkKind::ChipToChip || kind == LinkKind::Socket;
}

// The last step of the path from the start of a search to a device.
struct Step {
  DeviceId before = 0;
  std::uint32_t cables = 0;  // the fewest on one link so far
};

// Breadth-first search over NVLink, or over the host side (PCIe, chip-to-chip, socket links). Paths
// do not pass through endpoints: another GPU may forward NVLink traffic, but no GPU or NIC forwards
// traffic between PCIe devices.
std::map<DeviceId, Step> reach(const Cluster& cluster, DeviceId start, bool nvlink) {
  std::map<DeviceId, Step> reached = {{start, {start, std::numeric_limits<std::uint32_t>::max()}}};
  std::deque<DeviceId> queue = {start};
  for (; !queue.empty(); queue.pop_front()) {
    const DeviceId here = queue.front();
    const DeviceKind kind = cluster.device(here).kind;
    const bool end = kind == DeviceKind::Nic || (kind == DeviceKind::Gpu && !nvlink);
    if (end && here != start) continue;
    const std::uint32_t cables = reached.at(here).cables;
    for (const Link link : cluster.links_from(here)) {
      if (!carries(link.kind, nvlink)) continue;
      if (reached.try_emplace(link.to, Step{here, std::min(cables, link.cables)}).second) {
        queue.push_back(link.to);
      }
    }
  }
  return reached;
}

// Classifies the host path by the PCIe switches and CPUs on it, as nvidia-smi does.
std::string host_word(const Cluster& cluster, const std::map<DeviceId, Step>& reached,
                      DeviceId to) {
  if (!reached.contains(to)) return "-";
  std::uint32_t switches = 0;
  std::uint32_t cpus = 0;
  for (DeviceId at = to; reached.at(at).before != at; at = reached.at(at).before) {
    const DeviceKind kind = cluster.device(at).kind;
    if (kind == DeviceKind::PcieSwitch) ++switches;
    if (kind == DeviceKind::Cpu) ++cpus;
  }
  if (cpus > 1) return "SYS";
  if (cpus == 1) return switches > 1 ? "NODE" : "PHB";
  return switches > 1 ? "PXB" : "PIX";
}

struct MatrixRow {
  DeviceId device = 0;
  std::string name;
};

std::vector<MatrixRow> rows_of(const Cluster& cluster, std::uint32_t node) {
  std::vector<MatrixRow> gpus;
  std::vector<MatrixRow> nics;
  for (DeviceId id = 0; id < cluster.device_count(); ++id) {
    const Device& device = cluster.device(id);
    if (device.node != static_cast<std::int32_t>(node)) continue;
    if (device.kind == DeviceKind::Gpu) gpus.push_back({id, fmt::format("GPU{}", device.index)});
    if (device.kind == DeviceKind::Nic) nics.push_back({id, fmt::format("NIC{}", device.index)});
  }
  gpus.insert(gpus.end(), nics.begin(), nics.end());
  return gpus;
}

}  // namespace

std::string topology_matrix(const Cluster& cluster, std::uint32_t node) {
  TY_CHECK(node < cluster.facts().nodes, node, cluster.facts().nodes);
  const std::vector<MatrixRow> rows = rows_of(cluster, node);
  std::string text = fmt::format("{:<6}", "");
  for (const MatrixRow& row : rows) text += fmt::format("{:>6}", row.name);
  text += '\n';
  for (const MatrixRow& row : rows) {
    const auto nvlink = reach(cluster, row.device, true);
    const auto host = reach(cluster, row.device, false);
    text += fmt::format("{:<6}", row.name);
    for (const MatrixRow& column : rows) {
      const auto found = nvlink.find(column.device);
      std::string word = "X";
      if (column.device != row.device) {
        word = found != nvlink.end() ? fmt::format("NV{}", found->second.cables)
                                     : host_word(cluster, host, column.device);
      }
      text += fmt::format("{:>6}", word);
    }
    text += '\n';
  }
  return text + std::string(kLegend);
}

}  // namespace trainyard
