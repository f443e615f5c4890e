#include "sim/graph/blueprint.hpp"

#include <numeric>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {

Blueprint::Blueprint(const Wiring& like) {
  drawn_.devices_ = like.devices_;
  drawn_.names_ = like.names_;
  drawn_.pattern_of_node_ = like.pattern_of_node_;
}

DeviceId Blueprint::add(const Device& device) {
  drawn_.devices_.push_back(device);
  return drawn_.device_count() - 1;
}

DeviceId Blueprint::add(const Device& device, std::string name) {
  const DeviceId id = add(device);
  if (name != usual_name(device)) drawn_.names_.emplace(id, std::move(name));
  return id;
}

void Blueprint::link(DeviceId from, DeviceId to, const Wire& wire) {
  loose_.push_back({{from, to, drawn_.wires_.number(wire)}});
}

void Blueprint::cable(DeviceId a, DeviceId b, const Wire& wire) {
  loose_.push_back({.strand = {a, b, drawn_.wires_.number(wire)}, .both = true});
}

std::uint32_t Blueprint::add_pattern(Wiring node) {
  TY_CHECK(node.names_.empty(), node.names_.size());
  std::vector<std::uint32_t> numbers;
  for (const Wire& wire : node.wires_.all()) numbers.push_back(drawn_.wires_.number(wire));
  for (Wiring::Strand& strand : node.strands_) strand.wire = numbers[strand.wire];
  patterns_.push_back(std::move(node));
  return static_cast<std::uint32_t>(patterns_.size() - 1);
}

DeviceId Blueprint::stamp(std::uint32_t pattern, std::uint32_t node) {
  const DeviceId first = drawn_.device_count();
  for (Device device : patterns_.at(pattern).devices_) {
    device.node = static_cast<std::int32_t>(node);
    drawn_.devices_.push_back(device);
  }
  stamps_.push_back({pattern, first});
  if (drawn_.pattern_of_node_.size() <= node)
    drawn_.pattern_of_node_.resize(node + std::size_t{1}, Wiring::kNoPattern);
  drawn_.pattern_of_node_[node] = pattern;
  return first;
}

Wiring Blueprint::wiring() && {
  count_links();
  place_links();
  return std::move(drawn_);
}

// By device, where its links begin.
void Blueprint::count_links() {
  std::vector<LinkId>& begin = drawn_.first_link_;
  begin.assign(drawn_.devices_.size() + 1, 0);
  for (const auto& [pattern, first] : stamps_) {
    const Wiring& node = patterns_[pattern];
    for (DeviceId id = 0; id < node.device_count(); ++id)
      begin[first + id + 1] = node.first_link_[id + 1] - node.first_link_[id];
  }
  for (const auto& [strand, both] : loose_) {
    ++begin[strand.from + 1];
    if (both) ++begin[strand.to + 1];
  }
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
}

void Blueprint::place_links() {
  std::vector<LinkId> next(drawn_.first_link_.begin(), drawn_.first_link_.end() - 1);
  drawn_.strands_.resize(drawn_.first_link_.back());
  for (const auto& [pattern, first] : stamps_) {
    for (const Wiring::Strand& strand : patterns_[pattern].strands_)
      drawn_.strands_[next[first + strand.from]++] = {first + strand.from, first + strand.to,
                                                      strand.wire};
  }
  for (const auto& [strand, both] : loose_) {
    drawn_.strands_[next[strand.from]++] = strand;
    if (both) drawn_.strands_[next[strand.to]++] = {strand.to, strand.from, strand.wire};
  }
}

bool Blueprint::last_replaces(const Link& link, std::size_t links_before) const {
  if (loose_.size() != links_before + 1 || loose_.back().both) return false;
  const Wiring::Strand& last = loose_.back().strand;
  const Wire& wire = drawn_.wires_[last.wire];
  return last.from == link.from && last.to == link.to && wire.kind == link.kind &&
         wire.cables == link.cables;
}

Wiring redrawn(const Wiring& whole, const std::function<void(const Link&, Blueprint&)>& draw) {
  Blueprint blueprint(whole);
  std::vector<std::uint32_t>& patterns = blueprint.drawn_.pattern_of_node_;
  for (const Link link : whole.links()) {
    const std::size_t before = blueprint.loose_.size();
    draw(link, blueprint);
    const std::int32_t node = whole.device(link.from).node;
    const bool stays = node >= 0 && whole.device(link.to).node == node;
    if (stays && static_cast<std::size_t>(node) < patterns.size() &&
        !blueprint.last_replaces(link, before))
      patterns[static_cast<std::size_t>(node)] = Wiring::kNoPattern;
  }
  return std::move(blueprint).wiring();
}

}  // namespace trainyard
