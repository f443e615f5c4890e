#include "sim/cluster/wiring.hpp"

namespace trainyard {

std::uint32_t WireTable::number(const Wire& wire) {
  if (last_ < wires_.size() && wires_[last_] == wire) return last_;
  const auto [known, fresh] = numbers_.try_emplace(wire, static_cast<std::uint32_t>(wires_.size()));
  if (fresh) wires_.push_back(wire);
  return last_ = known->second;
}

std::string Wiring::name(DeviceId id) const {
  const auto given = names_.find(id);
  return given == names_.end() ? usual_name(device(id)) : given->second;
}

LinkSeries Wiring::series_of(const SeriesList<Near>::Piece& piece) const {
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
  SeriesList<Near> strands;
  for (LinkId id = 0; id < link_count(); ++id) {
    const Strand link = strand(id);
    strands.append({.first = link.to}, {link.from, {link.wire, device(link.to).kind}});
  }
  std::vector<Device> devices;
  std::vector<LinkId> first_link;
  for (DeviceId id = 0; id < device_count(); ++id) {
    devices.push_back(device(id));
    first_link.push_back(first_link_from(id));
  }
  first_link.push_back(link_count());
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
