#include "sim/cluster/blueprint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

// Devices and links have 32-bit numbers. The largest value is reserved (kNoLink in net.hpp).
std::uint32_t checked_number(std::uint64_t number, std::string_view things) {
  if (number < std::numeric_limits<std::uint32_t>::max()) return static_cast<std::uint32_t>(number);
  throw InputError(Problem{"", "", fmt::format("a cluster of more than 2^32 {}", things),
                           "use fewer nodes, or smaller ones"});
}

}  // namespace

// Collects the outlets of nodes stamped from one pattern, for NodeRuns. List k of a device holds
// the k-th outlet of each node, by node.
//
//    OutletLists lists({.first = 0, .devices = 23, .nodes = 16'384});
//    lists.add({.first = 22, .step = 23, .count = 64}, leaf, far);   // the NICs of 64 nodes
class Blueprint::OutletLists {
 public:
  explicit OutletLists(const Extent& extent) : extent_(extent), lists_(extent.devices) {}

  [[nodiscard]] bool holds(DeviceId id) const {
    return id >= extent_.first && id - extent_.first < extent_.devices * extent_.nodes;
  }
  // Adds a link from each of the devices to `to`. REQUIRES: the extent holds all of them.
  void add(const StridedRange& from, DeviceId to, const Far& far);
  // True if all nodes have equally many outlets and they were added in the order of the nodes.
  [[nodiscard]] bool are_alike() const;
  // Returns the outlets by device of a node. REQUIRES: are_alike().
  [[nodiscard]] std::vector<std::vector<NodeRuns::Outlet>> taken() && { return std::move(lists_); }

 private:
  struct Nodes {
    std::uint32_t begin = 0;
    std::uint32_t count = 0;
  };
  void add_at(std::uint32_t place, const Nodes& nodes, DeviceId to, const Far& far);

  Extent extent_;
  std::vector<std::vector<NodeRuns::Outlet>> lists_;  // by device, then k; for the first nodes
  bool consecutive_ = true;
};

void Blueprint::OutletLists::add(const StridedRange& from, DeviceId to, const Far& far) {
  const auto place = [&](DeviceId id) { return (id - extent_.first) % extent_.devices; };
  const auto node = [&](DeviceId id) { return (id - extent_.first) / extent_.devices; };
  // The devices are at one index of consecutive nodes.
  if (from.count == 1 || from.step == extent_.devices)
    return add_at(place(DeviceId{from.first}), {node(DeviceId{from.first}), from.count}, to, far);
  for (std::uint32_t i = 0; i < from.count; ++i)
    add_at(place(DeviceId{from[i]}), {node(DeviceId{from[i]}), 1}, to, far);
}

// Invariant: no list is longer than the one before it, because the links of a node fill the lists
// in order. The first list that does not reach the node yet takes its link. A range of nodes is
// added as one series if that list is the same for all of them, else node by node.
//
// Example: a NIC of each node has ports on two leaves. List 0 of that NIC holds the first leaf of
// every node, and list 1 the second one.
void Blueprint::OutletLists::add_at(std::uint32_t place, const Nodes& nodes, DeviceId to,
                                    const Far& far) {
  std::vector<NodeRuns::Outlet>& lists = lists_[place];
  const auto next = std::ranges::find_if(
      lists, [&](const NodeRuns::Outlet& list) { return list.size() <= nodes.begin; });
  const bool same_list =
      next == lists.begin() || std::prev(next)->size() >= nodes.begin + nodes.count;
  if (!same_list) {
    for (std::uint32_t i = 0; i < nodes.count; ++i) add_at(place, {nodes.begin + i, 1}, to, far);
    return;
  }
  NodeRuns::Outlet& list = next == lists.end() ? lists.emplace_back() : *next;
  // If the list is shorter, an earlier node has no link here. Such nodes form no run.
  if (list.size() == nodes.begin) {
    list.append({to, 0, nodes.count}, far);
  } else {
    consecutive_ = false;
  }
}

bool Blueprint::OutletLists::are_alike() const {
  return consecutive_ && std::ranges::all_of(lists_, [&](const auto& lists) {
           return std::ranges::all_of(
               lists, [&](const NodeRuns::Outlet& list) { return list.size() == extent_.nodes; });
         });
}

Blueprint::Blueprint(const Wiring& like) {
  drawn_.devices_.reserve(like.device_count());
  for (DeviceId id = 0; id < like.device_count(); ++id) drawn_.devices_.push_back(like.device(id));
  drawn_.names_ = like.names_;
  drawn_.pattern_of_node_ = like.pattern_of_node_;
}

DeviceId Blueprint::add(const Device& device) {
  const DeviceId id = next_device(1);
  drawn_.devices_.push_back(device);
  return id;
}

// Devices of stamps come first, then those of drawn_.
DeviceId Blueprint::next_device(std::uint64_t more) const {
  const std::uint64_t next = std::uint64_t{stamped_} + drawn_.devices_.size();
  checked_number(next + more, "devices");
  return DeviceId{static_cast<std::uint32_t>(next)};
}

DeviceId Blueprint::add(const Device& device, std::string name) {
  const DeviceId id = add(device);
  if (name != usual_name(device)) drawn_.names_.emplace(id, std::move(name));
  return id;
}

Device Blueprint::device(DeviceId id) const {
  if (id >= stamped_) return drawn_.devices_[id - stamped_];
  const auto behind = std::ranges::upper_bound(
      stamps_, id, {}, [](const Stamps& stamps) { return stamps.extent.first; });
  const Stamps& stamps = *std::prev(behind);
  const std::uint32_t place = id - stamps.extent.first;
  Device device = patterns_[stamps.pattern].devices[place % stamps.extent.devices];
  device.node = static_cast<std::int32_t>(stamps.node + place / stamps.extent.devices);
  return device;
}

// Usually these are NICs at the same index of consecutive nodes of a pattern, which needs no
// lookup.
bool Blueprint::are_alike(DeviceId a, DeviceId b) const {
  if (!stamps_.empty()) {
    const Extent& extent = stamps_.front().extent;
    const std::uint32_t end = extent.devices * extent.nodes;
    const auto [low, high] = std::minmax(a, b);
    if (high < end && (high - low) % extent.devices == 0) return true;
  }
  return device(a).kind == device(b).kind;
}

void Blueprint::link(DeviceId from, DeviceId to, const Wire& wire) {
  draw({.from = {.first = from}, .to = {.first = to}, .wire = drawn_.wires_.number(wire)});
}

void Blueprint::cable(DeviceId a, DeviceId b, const Wire& wire) {
  draw(
      {.from = {.first = a}, .to = {.first = b}, .wire = drawn_.wires_.number(wire), .both = true});
}

void Blueprint::join(std::span<const DeviceId> a, std::span<const DeviceId> b, const Wire& wire) {
  const std::uint32_t number = drawn_.wires_.number(wire);
  const std::vector<StridedRange> others = in_series(b);
  for (const StridedRange& from : in_series(a))
    for (const StridedRange& to : others) loose_.push_back({from, to, number, true});
}

// The devices as arithmetic series, each of devices of one kind: 64 leaves with consecutive numbers
// are one series.
std::vector<StridedRange> Blueprint::in_series(std::span<const DeviceId> ids) const {
  std::vector<StridedRange> range;
  for (const DeviceId id : ids)
    if (range.empty() || !are_alike(DeviceId{range.back().first}, id) || !range.back().extend({id}))
      range.push_back({id});
  return range;
}

// Merges the link into the last series if one end is equal and the other continues the series with
// a device of the same kind. A link from a device to itself is never merged, because both of its
// ends would advance.
void Blueprint::draw(const Loose& loose) {
  ++links_drawn_;
  last_ = loose;
  const auto joins_two = [](const Loose& some) { return some.from.first != some.to.first; };
  if (!loose_.empty() && loose_.back().wire == loose.wire && loose_.back().both == loose.both &&
      joins_two(loose_.back()) && joins_two(loose)) {
    const auto stays = [](const StridedRange& end, const StridedRange& next) {
      return end.count == 1 && end.first == next.first;
    };
    const auto goes_on = [&](StridedRange& end, const StridedRange& next) {
      return are_alike(DeviceId{end.first}, DeviceId{next.first}) && end.extend(next);
    };
    Loose& open = loose_.back();
    if (stays(open.from, loose.from) && goes_on(open.to, loose.to)) return;
    if (stays(open.to, loose.to) && goes_on(open.from, loose.from)) return;
  }
  loose_.push_back(loose);
}

std::uint32_t Blueprint::add_pattern(const Wiring& node) {
  TY_CHECK(node.names_.empty(), node.names_.size());
  TY_CHECK(std::ranges::none_of(node.wires(), is_fabric_side, &Wire::kind));
  Pattern pattern;
  std::vector<std::uint32_t> numbers;
  for (const Wire& wire : node.wires()) numbers.push_back(drawn_.wires_.number(wire));
  for (DeviceId id = 0; id < node.device_count(); ++id) {
    TY_CHECK(!is_fabric_switch(node.device(id).kind), id);
    pattern.devices.push_back(node.device(id));
  }
  for (LinkId id = 0; id < node.link_count(); ++id) {
    const LinkEnds strand = node.strand(id);
    pattern.inner.push_back({strand.from, strand.to, numbers[strand.wire]});
  }
  patterns_.push_back(std::move(pattern));
  return static_cast<std::uint32_t>(patterns_.size() - 1);
}

// A copy after other devices is expanded at once, because runs precede all other devices.
DeviceId Blueprint::stamp(std::uint32_t pattern, std::uint32_t node) {
  // The pattern of the node is recorded in either case, so that NodeShapes compares it only once.
  if (drawn_.pattern_of_node_.size() <= node)
    drawn_.pattern_of_node_.resize(node + std::size_t{1}, Wiring::kNoPattern);
  drawn_.pattern_of_node_[node] = pattern;
  const auto devices = static_cast<std::uint32_t>(patterns_.at(pattern).devices.size());
  const Stamps copy{pattern, node, {stamped_, devices, 1}};
  const DeviceId first = next_device(devices);
  if (!drawn_.devices_.empty()) {
    expand(copy, drawn_.devices_);
    for (const LinkEnds& strand : patterns_[pattern].inner)
      loose_.push_back({{first + strand.from}, {first + strand.to}, strand.wire});
    return first;
  }
  const bool goes_on = !stamps_.empty() && stamps_.back().pattern == pattern &&
                       stamps_.back().node + stamps_.back().extent.nodes == node;
  if (goes_on) {
    ++stamps_.back().extent.nodes;
  } else {
    stamps_.push_back(copy);
  }
  stamped_ += devices;
  return first;
}

void Blueprint::expand(const Stamps& stamps, std::vector<Device>& devices) const {
  for (std::uint32_t i = 0; i < stamps.extent.nodes; ++i) {
    for (Device device : patterns_[stamps.pattern].devices) {
      device.node = static_cast<std::int32_t>(stamps.node + i);
      devices.push_back(device);
    }
  }
}

// Runs come first, because they take the lowest numbers of devices and links. A stamp that forms no
// run becomes single devices in build_runs(), and its links are laid out in build_links().
Wiring Blueprint::wiring() && {
  check_links();
  build_runs();
  build_links();
  return std::move(drawn_);
}

// Calls use(from, to, wire) for every direction of every link, in the order in which they were
// added.
template <class Use>
void Blueprint::for_each_way(Use use) const {
  for (const auto& [from, to, wire, both] : loose_) {
    use(from, to, wire);
    if (both) use(to, from, wire);
  }
}

void Blueprint::check_links() const {
  std::uint64_t links = 0;
  for (const Stamps& stamps : stamps_)
    links += std::uint64_t{stamps.extent.nodes} * patterns_[stamps.pattern].inner.size();
  for_each_way([&](const StridedRange& from, const StridedRange& to, std::uint32_t) {
    links += std::uint64_t{from.count} * to.count;
  });
  checked_number(links, "links");
}

// Turns the leading stamps into runs, up to the first whose nodes differ in their outlets. The
// stamps from there on become single devices.
void Blueprint::build_runs() {
  std::vector<OutletLists> lists;
  for (const Stamps& stamps : stamps_) lists.emplace_back(stamps.extent);
  add_outlets(lists);
  std::size_t runs = 0;
  for (; runs < lists.size() && lists[runs].are_alike(); ++runs) {
    const Pattern& pattern = patterns_[stamps_[runs].pattern];
    drawn_.runs_.add({.devices = pattern.devices,
                      .inner = pattern.inner,
                      .outlets = std::move(lists[runs]).taken()},
                     stamps_[runs].node, stamps_[runs].extent.nodes);
  }
  stamps_.erase(stamps_.begin(), stamps_.begin() + static_cast<std::ptrdiff_t>(runs));
  if (stamps_.empty()) return;
  std::vector<Device> devices;
  for (const Stamps& stamps : stamps_) expand(stamps, devices);
  drawn_.devices_.insert(drawn_.devices_.begin(), devices.begin(), devices.end());
}

void Blueprint::add_outlets(std::vector<OutletLists>& lists) const {
  for_each_way([&](const StridedRange& from, const StridedRange& to, std::uint32_t wire) {
    const auto add = [&](const StridedRange& some) {
      if (some.first >= stamped_) return;
      const auto of = std::ranges::find_if(
          lists, [&](const OutletLists& list) { return list.holds(DeviceId{some.first}); });
      for (std::uint32_t i = 0; i < to.count; ++i)
        of->add(some, DeviceId{to[i]}, {.wire = wire, .kind = device(DeviceId{to[i]}).kind});
    };
    // A series that is not inside one extent may leave it on the way, so its links are added one by
    // one.
    const bool whole = std::ranges::any_of(lists, [&](const OutletLists& list) {
      return list.holds(DeviceId{from.first}) && list.holds(DeviceId{from.last()});
    });
    if (whole || (from.first >= stamped_ && from.last() >= stamped_)) return add(from);
    for (std::uint32_t i = 0; i < from.count; ++i) add({from[i]});
  });
}

// Lays out the links of all devices after the runs: by device, inner links of its node first, then
// the others in the order in which they were added.
void Blueprint::build_links() {
  const DeviceId begin{drawn_.runs_.device_count()};
  StridedGroups<Far> leading(drawn_.devices_.size());
  const auto kind = [&](DeviceId id) { return drawn_.device(id).kind; };
  for (const Stamps& stamps : stamps_) {
    for (std::uint32_t i = 0; i < stamps.extent.nodes; ++i) {
      const DeviceId first = stamps.extent.first + i * stamps.extent.devices;
      for (const LinkEnds& strand : patterns_[stamps.pattern].inner)
        leading.append(first + strand.from - begin, {first + strand.to},
                       {strand.wire, kind(DeviceId{first + strand.to})});
    }
  }
  for_each_way([&](const StridedRange& from, const StridedRange& to, std::uint32_t wire) {
    const Far far{wire, kind(DeviceId{to.first})};
    for (std::uint32_t i = 0; i < from.count; ++i)
      if (from[i] >= begin) leading.append(from[i] - begin, to, far);
  });
  for (std::uint32_t device = 0; device < leading.size(); ++device) {
    drawn_.first_link_.emplace_back(drawn_.link_count());
    leading.for_each(device, [&](const StridedRange& to, const Far& far) {
      drawn_.strands_.append(to, {begin + device, far});
    });
  }
  drawn_.first_link_.emplace_back(drawn_.link_count());
}

bool Blueprint::last_replaces(const Link& link, std::size_t links_before) const {
  if (links_drawn_ != links_before + 1 || last_.both) return false;
  const Wire& wire = drawn_.wires_[last_.wire];
  return last_.from.first == link.from && last_.to.first == link.to && wire.kind == link.kind &&
         wire.cables == link.cables;
}

// A node keeps its pattern only if each inner link is replaced one for one (last_replaces).
void Blueprint::redraw(const Link& link, const DrawLink& draw) {
  std::vector<std::uint32_t>& patterns = drawn_.pattern_of_node_;
  const std::size_t before = links_drawn_;
  draw(link, *this);
  const std::int32_t node = device(link.from).node;
  const bool stays = node >= 0 && device(link.to).node == node;
  if (stays && static_cast<std::size_t>(node) < patterns.size() && !last_replaces(link, before))
    patterns[static_cast<std::size_t>(node)] = Wiring::kNoPattern;
}

Wiring with_replaced_links(const Wiring& whole, const DrawLink& draw) {
  Blueprint blueprint(whole);
  for (const Link link : whole.links()) blueprint.redraw(link, draw);
  return std::move(blueprint).wiring();
}

Wiring with_replaced_outer_links(const Wiring& whole, const DrawLink& draw) {
  Blueprint blueprint;
  Wiring& drawn = blueprint.drawn_;
  // Each run becomes a pattern and its stamps, with the same device numbers. Inner links are copied
  // with it, so only the other links are passed to `draw`.
  whole.runs_.for_each_run([&](NodeRuns::Node node, std::uint32_t first, std::uint32_t count) {
    for (LinkEnds& strand : node.inner)
      strand.wire = drawn.wires_.number(whole.wires_[strand.wire]);
    const auto devices = static_cast<std::uint32_t>(node.devices.size());
    const auto pattern = static_cast<std::uint32_t>(blueprint.patterns_.size());
    blueprint.patterns_.push_back({std::move(node.devices), std::move(node.inner)});
    blueprint.stamps_.push_back({pattern, first, {blueprint.stamped_, devices, count}});
    blueprint.stamped_ += devices * count;
  });
  drawn.devices_ = whole.devices_;
  drawn.names_ = whole.names_;
  drawn.pattern_of_node_ = whole.pattern_of_node_;
  whole.for_each_outside_patterns(
      [&](LinkId id, const LinkEnds&) { blueprint.redraw(whole.link(id), draw); });
  return std::move(blueprint).wiring();
}

}  // namespace trainyard
