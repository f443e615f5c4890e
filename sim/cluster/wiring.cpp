#include "sim/cluster/wiring.hpp"

#include <algorithm>
#include <utility>

namespace trainyard {

void NodeRuns::add(Node node, std::uint32_t first_node, std::uint32_t count) {
  Run run{.first_device = DeviceId{devices_},
          .first_link = LinkId{links_},
          .first_node = first_node,
          .count = count,
          .devices = static_cast<std::uint32_t>(node.devices.size()),
          .inside = std::move(node.devices)};
  // Lists the links of a node in link order: by device, its inner links first, then its outlets.
  // `number` is the index of an outlet in run.outlets.
  std::size_t next = 0;
  for (std::uint32_t device = 0; device < run.devices; ++device) {
    run.first_link_of.push_back(static_cast<std::uint32_t>(run.entries.size()));
    for (; next < node.inner.size() && node.inner[next].from == device; ++next)
      run.entries.push_back({device, node.inner[next].to, node.inner[next].wire});
    for (Outlet& outlet : node.outlets[device]) {
      const auto number = static_cast<std::uint32_t>(run.outlet_links.size());
      run.outlet_links.push_back(static_cast<std::uint32_t>(run.entries.size()));
      run.outlets.push_back(std::move(outlet));
      run.entries.push_back({.from = device, .to = number, .leaves = true});
    }
  }
  run.links = static_cast<std::uint32_t>(run.entries.size());
  devices_ += count * run.devices;
  links_ += count * run.links;
  runs_.push_back(std::move(run));
}

NodeRuns::Node NodeRuns::inside_of(const Run& run) {
  Node node{.devices = run.inside, .inner = {}, .outlets = {}};
  for (const Entry& entry : run.entries)
    if (!entry.leaves) node.inner.push_back({DeviceId{entry.from}, DeviceId{entry.to}, entry.wire});
  return node;
}

// One outlet of consecutive nodes: its links lie run.links apart, and its devices run.devices
// apart.
StridedLinks NodeRuns::series_of(const Run& run, std::size_t outlet, const Outlet::Piece& piece) {
  const std::uint32_t link = run.outlet_links[outlet];
  const std::uint32_t place = run.entries[link].from;
  const std::uint32_t count = piece.range.count;
  return {.links = {run.first_link + piece.begin * run.links + link, run.links, count},
          .from = {run.first_device + piece.begin * run.devices + place, run.devices, count},
          .to = piece.range,
          .from_kind = run.inside[place].kind,
          .to_kind = piece.tag.kind,
          .wire = piece.tag.wire};
}

bool NodeRuns::are_nodes(std::uint32_t count) const {
  std::uint32_t next = 0;
  for (const Run& run : runs_) {
    if (run.first_node != next) return false;
    next += run.count;
  }
  return next == count;
}

std::uint32_t WireTable::number(const Wire& wire) {
  // Callers mostly add the same wire many times in succession, so the last number is tried first.
  if (last_ < wires_.size() && wires_[last_] == wire) return last_;
  const auto [known, fresh] = numbers_.try_emplace(wire, static_cast<std::uint32_t>(wires_.size()));
  if (fresh) wires_.push_back(wire);
  return last_ = known->second;
}

std::string Wiring::name(DeviceId id) const {
  const auto given = names_.find(id);
  return given == names_.end() ? usual_name(device(id)) : given->second;
}

StridedLinks Wiring::series_of(const StridedList<Near>::Piece& piece) const {
  const auto& [begin, to, near] = piece;
  return {.links = {runs_.link_count() + begin, 1, to.count},
          .from = {near.from, 0, to.count},
          .to = to,
          .from_kind = device(near.from).kind,
          .to_kind = near.far.kind,
          .wire = near.far.wire};
}

void Wiring::write_out() {
  if (runs_.device_count() == 0) return;
  StridedList<Near> strands;
  for (LinkId id = 0; id < link_count(); ++id) {
    const LinkEnds link = strand(id);
    strands.append({.first = link.to}, {link.from, {link.wire, device(link.to).kind}});
  }
  // The loops above and below read through runs_, so runs_ is cleared only after both.
  std::vector<Device> devices;
  std::vector<LinkId> first_link;
  for (DeviceId id = 0; id < device_count(); ++id) {
    devices.push_back(device(id));
    first_link.push_back(first_link_from(id));
  }
  first_link.emplace_back(link_count());
  runs_ = {};
  strands_ = std::move(strands);
  devices_ = std::move(devices);
  first_link_ = std::move(first_link);
}

std::optional<std::uint32_t> Wiring::pattern_of(std::uint32_t node) const {
  if (node >= pattern_of_node_.size() || pattern_of_node_[node] == kNoPattern) return {};
  return pattern_of_node_[node];
}

}  // namespace trainyard
