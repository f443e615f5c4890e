#include "sim/cluster/blueprint.hpp"

#include <algorithm>
#include <numeric>
#include <span>
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
  TY_CHECK(node.runs_.device_count() == 0, node.runs_.device_count());
  TY_CHECK(std::ranges::none_of(node.wires(), is_fabric_side, &Wire::kind));
  std::vector<std::uint32_t> numbers;
  for (const Wire& wire : node.wires_.all()) numbers.push_back(drawn_.wires_.number(wire));
  for (Strand& strand : node.strands_) strand.wire = numbers[strand.wire];
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
  std::vector<std::uint32_t> loose = count_loose();
  lay_runs(loose);
  place_links(std::move(loose));
  return std::move(drawn_);
}

// By device, the links that start at it and are part of no pattern.
std::vector<std::uint32_t> Blueprint::count_loose() const {
  std::vector<std::uint32_t> count(drawn_.devices_.size(), 0);
  for (const auto& [strand, both] : loose_) {
    ++count[strand.from];
    if (both) ++count[strand.to];
  }
  return count;
}

// Stamps that come before all other devices; others stay, to be written out.
void Blueprint::lay_runs(const std::vector<std::uint32_t>& loose) {
  std::size_t begin = 0;
  while (begin < stamps_.size() && stamps_[begin].first == drawn_.runs_.device_count()) {
    const auto [pattern, first] = stamps_[begin];
    const Wiring& node = patterns_[pattern];
    const auto outlets = [&](DeviceId of) {
      return std::span(loose).subspan(of, node.device_count());
    };
    std::size_t end = begin + 1;
    for (DeviceId next = first + node.device_count();
         end < stamps_.size() && stamps_[end].pattern == pattern && stamps_[end].first == next &&
         std::ranges::equal(outlets(first), outlets(next));
         next += node.device_count())
      ++end;
    const auto same = outlets(first);
    drawn_.runs_.add({.inner = node.strands_, .outlets = {same.begin(), same.end()}},
                     static_cast<std::uint32_t>(end - begin));
    begin = end;
  }
  stamps_.erase(stamps_.begin(), stamps_.begin() + static_cast<std::ptrdiff_t>(begin));
}

// `links`: by device, those that are no part of a run.
void Blueprint::place_links(std::vector<std::uint32_t> links) {
  for (const auto& [pattern, first] : stamps_)
    for (const Strand& strand : patterns_[pattern].strands_) ++links[first + strand.from];
  const DeviceId in_runs = drawn_.runs_.device_count();
  const auto others = links.begin() + in_runs;
  const std::uint32_t strands = std::accumulate(others, links.end(), 0U);
  std::exclusive_scan(links.begin(), others, links.begin(), 0U);
  std::exclusive_scan(others, links.end(), others, 0U);
  for (auto first = others; first != links.end(); ++first)
    drawn_.first_link_.push_back(drawn_.runs_.link_count() + *first);
  drawn_.first_link_.push_back(drawn_.runs_.link_count() + strands);
  drawn_.strands_.resize(strands);
  const std::span<NodeRuns::Outlet> outlets = drawn_.runs_.outlets();
  const auto place = [&](const Strand& strand) {
    const std::uint32_t next = links[strand.from]++;
    if (strand.from < in_runs) {
      outlets[next] = {strand.to, strand.wire};
    } else {
      drawn_.strands_[next] = strand;
    }
  };
  for (const auto& [pattern, first] : stamps_)
    for (const Strand& strand : patterns_[pattern].strands_)
      place({first + strand.from, first + strand.to, strand.wire});
  for (const auto& [strand, both] : loose_) {
    place(strand);
    if (both) place({strand.to, strand.from, strand.wire});
  }
}

bool Blueprint::last_replaces(const Link& link, std::size_t links_before) const {
  if (loose_.size() != links_before + 1 || loose_.back().both) return false;
  const Strand& last = loose_.back().strand;
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
