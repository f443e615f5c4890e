// The devices and directed links of a cluster in closed form. Identical nodes are stored once, the
// links of a switch as arithmetic series, and a name only for a device that has a name other than
// the default.
//
// Links are numbered by the device that they start at. The links of one device are numbered in the
// order in which they were added (blueprint.hpp). Consecutive nodes of one pattern therefore have
// consecutive link numbers, and NodeRuns computes the two devices of a link from its number. Every
// link refers to one of a few wires, so change_wires() changes all rates without a change to any
// link.
//
//    for (const Link link : wiring.links_from(nic)) use(link.to, link.capacity);
//    wiring.for_each_range([&](const StridedLinks& links) { use(links.from[0], links.to[0]); });
#pragma once

#include <algorithm>
#include <boost/iterator/counting_iterator.hpp>
#include <boost/iterator/transform_iterator.hpp>
#include <boost/range/iterator_range.hpp>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/base/strided_range.hpp"
#include "sim/cluster/wire.hpp"

namespace trainyard {

class Blueprint;

// The wire of the links of a series, and the kind of the devices that they lead to.
struct Far {
  std::uint32_t wire = 0;
  DeviceKind kind = DeviceKind::Gpu;
  bool operator==(const Far&) const = default;
};

// A series of links in closed form. For a leaf with 64 spines it is the first link, the first
// spine, and the step from each to the next. The numbers of the links ascend.
struct StridedLinks {
  StridedRange links = {};  // its count is the count of all three series
  StridedRange from = {};
  StridedRange to = {};
  DeviceKind from_kind = DeviceKind::Gpu;
  DeviceKind to_kind = DeviceKind::Gpu;
  std::uint32_t wire = 0;
};

// Runs of identical nodes with consecutive numbers.
//
// All nodes of a run have the same number of devices, and corresponding devices have the same
// number of links. Device d of node n therefore is first + n * devices + d, and links are numbered
// by the same rule. Links within a node are stored once for the run. A link that leaves its node is
// an outlet: a list of series stores the device that it leads to from each node.
//
// Example: 16 384 nodes of 23 devices and 66 links, 8 of which lead to switches that 64 nodes
// share, take 66 entries and 8 lists of 256 series in place of 1 081 344 links.
class NodeRuns {
 public:
  using Outlet = StridedList<Far>;  // by node of the run, the device that the link leads to

  // One node of a run. Its devices are numbered from 0.
  struct Node {
    std::vector<Device> devices;               // `node` is ignored
    std::vector<LinkEnds> inner;               // ascending by the device they start at
    std::vector<std::vector<Outlet>> outlets;  // by device; they follow its inner links
  };

  // Appends a run of `count` nodes. Its first node has the number first_node.
  void add(Node node, std::uint32_t first_node, std::uint32_t count);

  [[nodiscard]] std::uint32_t device_count() const { return devices_; }
  [[nodiscard]] std::uint32_t link_count() const { return links_; }
  // REQUIRES: id < device_count().
  [[nodiscard]] Device device(DeviceId id) const {
    const Run& run = of_device(id);
    Device device = run.inside[(id - run.first_device) % run.devices];
    device.node = static_cast<std::int32_t>(run.first_node + (id - run.first_device) / run.devices);
    return device;
  }
  // Returns the index of a device in its node. REQUIRES: id < device_count().
  [[nodiscard]] std::uint32_t holder_of(DeviceId id) const {
    const Run& run = of_device(id);
    return (id - run.first_device) % run.devices;
  }
  // True if the runs hold exactly the nodes 0, 1, ..., count - 1, in this order.
  [[nodiscard]] bool are_nodes(std::uint32_t count) const;
  // The other devices of the node follow this one. REQUIRES: are_nodes() of more than `node` nodes.
  [[nodiscard]] DeviceId first_device_of(std::uint32_t node) const {
    const Run& run = of_node(node);
    return run.first_device + (node - run.first_node) * run.devices;
  }
  [[nodiscard]] std::uint32_t devices_of(std::uint32_t node) const { return of_node(node).devices; }
  // Returns use(from, to, wire) for the link. REQUIRES: id < link_count().
  template <class Use>
  std::invoke_result_t<Use, DeviceId, DeviceId, std::uint32_t> read(LinkId id, Use use) const {
    const Run& run = of_link(id);
    const std::uint32_t node = (id - run.first_link) / run.links;
    return read(run, node, (id - run.first_link) % run.links, use);
  }
  // REQUIRES: device < device_count().
  [[nodiscard]] LinkId first_link_from(DeviceId device) const {
    const Run& run = of_device(device);
    const std::uint32_t node = (device - run.first_device) / run.devices;
    const std::uint32_t place = (device - run.first_device) % run.devices;
    return run.first_link + node * run.links + run.first_link_of[place];
  }
  // Calls use(node, first_node, count) for each run, with the arguments of add(), but without
  // outlets.
  template <class Use>
  void for_each_run(Use use) const {
    for (const Run& run : runs_) use(inside_of(run), run.first_node, run.count);
  }
  // Calls use(link, strand) for each outlet, ascending.
  template <class Use>
  void for_each_outlet(Use use) const {
    for (const Run& run : runs_)
      for (std::uint32_t node = 0; node < run.count; ++node)
        for (const std::uint32_t link : run.outlet_links)
          use(run.first_link + node * run.links + link,
              read(run, node, link, [](DeviceId from, DeviceId to, std::uint32_t wire) {
                return LinkEnds{from, to, wire};
              }));
  }
  // Calls use(links) for each series of outlets. Each outlet is in one series.
  template <class Use>
  void for_each_range(Use use) const {
    for (const Run& run : runs_)
      for (std::size_t outlet = 0; outlet < run.outlets.size(); ++outlet)
        for (const Outlet::Piece& piece : run.outlets[outlet].pieces())
          use(series_of(run, outlet, piece));
  }

 private:
  struct Entry {
    std::uint32_t from = 0;  // index in the node
    std::uint32_t to = 0;    // index in the node; for an outlet, its index in `outlets`
    std::uint32_t wire = 0;
    bool leaves = false;
  };
  struct Run {
    DeviceId first_device = 0;
    LinkId first_link = 0;
    std::uint32_t first_node = 0;
    std::uint32_t count = 0;
    std::uint32_t devices = 0;  // of one node
    std::uint32_t links = 0;
    std::vector<Device> inside = {};                // by device of a node
    std::vector<Entry> entries = {};                // by link of a node
    std::vector<std::uint32_t> first_link_of = {};  // by device of a node
    std::vector<std::uint32_t> outlet_links = {};   // the links of a node that are outlets
    std::vector<Outlet> outlets = {};               // by index in outlet_links
  };

  template <class Use>
  std::invoke_result_t<Use, DeviceId, DeviceId, std::uint32_t> read(const Run& run,
                                                                    std::uint32_t node,
                                                                    std::uint32_t link,
                                                                    Use use) const {
    const Entry& entry = run.entries[link];
    const DeviceId first = run.first_device + node * run.devices;
    if (!entry.leaves) return use(first + entry.from, first + entry.to, entry.wire);
    const Outlet::Piece& piece = run.outlets[entry.to].piece_at(node);
    return use(first + entry.from, DeviceId{piece.range[node - piece.begin]}, piece.tag.wire);
  }
  [[nodiscard]] static Node inside_of(const Run& run);
  [[nodiscard]] static StridedLinks series_of(const Run& run, std::size_t outlet,
                                              const Outlet::Piece& piece);
  // The common case of a single run avoids the binary search.
  [[nodiscard]] const Run& of_link(LinkId id) const {
    return runs_.size() == 1 ? runs_.front() : last_from(id, &Run::first_link);
  }
  [[nodiscard]] const Run& of_device(DeviceId id) const {
    return runs_.size() == 1 ? runs_.front() : last_from(id, &Run::first_device);
  }
  [[nodiscard]] const Run& of_node(std::uint32_t node) const {
    return runs_.size() == 1 ? runs_.front() : last_from(node, &Run::first_node);
  }
  // A run without links begins at the same link as the next run, so upper_bound skips it.
  template <class Number>
  [[nodiscard]] const Run& last_from(Number number, Number Run::*first) const {
    return *std::prev(std::ranges::upper_bound(runs_, number, {}, first));
  }

  std::vector<Run> runs_;
  std::uint32_t devices_ = 0;
  std::uint32_t links_ = 0;
};

// The distinct wires, by number.
class WireTable {
 public:
  std::uint32_t number(const Wire& wire);
  [[nodiscard]] const Wire& operator[](std::uint32_t number) const { return wires_[number]; }
  [[nodiscard]] const std::vector<Wire>& all() const { return wires_; }

 private:
  friend class Wiring;
  std::vector<Wire> wires_;
  std::map<Wire, std::uint32_t> numbers_;
  std::uint32_t last_ = 0;  // cache: most wires equal the previous one
};

class Wiring {
 public:
  struct LinkAt {
    const Wiring* wiring = nullptr;
    Link operator()(std::uint32_t id) const { return wiring->link(LinkId{id}); }
  };
  using Links = boost::iterator_range<
      boost::transform_iterator<LinkAt, boost::counting_iterator<std::uint32_t>, Link>>;

  [[nodiscard]] std::uint32_t device_count() const {
    return runs_.device_count() + static_cast<std::uint32_t>(devices_.size());
  }
  [[nodiscard]] Device device(DeviceId id) const {
    return id < runs_.device_count() ? runs_.device(id) : devices_[id - runs_.device_count()];
  }
  // Devices from this one on belong to no run. They include all switches of the fabric.
  [[nodiscard]] DeviceId runs_end() const { return DeviceId{runs_.device_count()}; }
  [[nodiscard]] const NodeRuns& runs() const { return runs_; }
  [[nodiscard]] std::string name(DeviceId id) const;

  [[nodiscard]] std::uint32_t link_count() const { return runs_.link_count() + strands_.size(); }
  [[nodiscard]] LinkEnds strand(LinkId id) const {
    return read(id, [](DeviceId from, DeviceId to, std::uint32_t wire) {
      return LinkEnds{from, to, wire};
    });
  }
  [[nodiscard]] Link link(LinkId id) const {
    return read(id, [&](DeviceId from, DeviceId to, std::uint32_t number) {
      const Wire& wire = wires_[number];
      return Link{id, wire.kind, from, to, wire.capacity, wire.nominal, wire.latency, wire.cables};
    });
  }
  [[nodiscard]] const Wire& wire(LinkId id) const {
    return wires_[read(id, [](DeviceId, DeviceId, std::uint32_t wire) { return wire; })];
  }
  [[nodiscard]] const std::vector<Wire>& wires() const { return wires_.all(); }
  [[nodiscard]] DeviceId from(LinkId id) const {
    return read(id, [](DeviceId from, DeviceId, std::uint32_t) { return from; });
  }
  [[nodiscard]] DeviceId to(LinkId id) const {
    return read(id, [](DeviceId, DeviceId to, std::uint32_t) { return to; });
  }
  [[nodiscard]] Links links() const { return range(0, LinkId{link_count()}); }
  // The links that start at a device, ascending.
  [[nodiscard]] Links links_from(DeviceId device) const {
    return range(first_link_from(device), first_link_from(device + 1));
  }
  // The first link of a device. For the number after the last device, it is the number of all
  // links.
  [[nodiscard]] LinkId first_link_from(DeviceId device) const {
    return device < runs_.device_count() ? runs_.first_link_from(device)
                                         : first_link_[device - runs_.device_count()];
  }
  // Calls use(link, strand) for every link that is not inside a node of a run, ascending. These
  // include all links of the fabric.
  template <class Use>
  void for_each_outside_patterns(Use use) const {
    runs_.for_each_outlet(use);
    LinkId link{runs_.link_count()};
    for (const auto& [begin, to, near] : strands_.pieces())
      for (std::uint32_t i = 0; i < to.count; ++i, ++link)
        use(link, LinkEnds{near.from, DeviceId{to[i]}, near.far.wire});
  }
  // Calls use(links) for each series of the same links. All devices that a series leads to have one
  // kind.
  template <class Use>
  void for_each_range(Use use) const {
    runs_.for_each_range(use);
    for (const auto& piece : strands_.pieces()) use(series_of(piece));
  }
  // Calls use(links) for each series of links that start at `device`, ascending, including links
  // within its node. REQUIRES: `device` belongs to no run.
  template <class Use>
  void for_each_range_from(DeviceId device, Use use) const {
    const std::uint32_t end = first_link_from(device + 1) - runs_.link_count();
    for (std::uint32_t place = first_link_from(device) - runs_.link_count(); place < end;) {
      const auto& piece = strands_.piece_at(place);
      use(series_of(piece));
      place += piece.range.count;
    }
  }

  // Returns the pattern of a node, or nothing if it is unknown. Nodes of one pattern have the same
  // devices in the same order, and the first links of each device are the same links to other
  // devices of its node.
  [[nodiscard]] std::optional<std::uint32_t> pattern_of(std::uint32_t node) const;

  // Calls change(wire) once for every distinct wire; it may change the wire's properties.
  template <class Change>
  void change_wires(Change change) {
    for (Wire& wire : wires_.wires_) change(wire);
    wires_.numbers_.clear();
  }
  // Replaces the wire of every link by rewired(link).
  template <class Rewired>
  void rewire(Rewired rewired) {
    write_out();
    WireTable table;
    StridedList<Near> strands;
    for (const Link link : links())
      strands.append({.first = link.to},
                     {link.from, {table.number(rewired(link)), device(link.to).kind}});
    strands_ = std::move(strands);
    wires_ = std::move(table);
  }

 private:
  friend class Blueprint;
  friend Wiring with_replaced_outer_links(const Wiring& whole,
                                          const std::function<void(const Link&, Blueprint&)>& draw);
  // The properties that the links of a series share: the start, the wire, and the kind of the
  // devices that they lead to.
  struct Near {
    DeviceId from = 0;
    Far far = {};
    bool operator==(const Near&) const = default;
  };
  static constexpr std::uint32_t kNoPattern = std::numeric_limits<std::uint32_t>::max();
  void write_out();  // expands all runs to single devices and links
  [[nodiscard]] StridedLinks series_of(const StridedList<Near>::Piece& piece) const;
  // Returns use(from, to, wire) for a link. It passes three values and not a LinkEnds, because
  // these stay in registers and a struct of twelve bytes does not.
  template <class Use>
  std::invoke_result_t<Use, DeviceId, DeviceId, std::uint32_t> read(LinkId id, Use use) const {
    if (id < runs_.link_count()) return runs_.read(id, use);
    const std::uint32_t place = id - runs_.link_count();
    const auto& [begin, to, near] = strands_.piece_at(place);
    return use(near.from, DeviceId{to[place - begin]}, near.far.wire);
  }
  [[nodiscard]] Links range(LinkId begin, LinkId end) const {
    const auto at = [&](LinkId id) {
      return boost::transform_iterator<LinkAt, boost::counting_iterator<std::uint32_t>, Link>(
          boost::counting_iterator<std::uint32_t>(id), LinkAt{this});
    };
    return {at(begin), at(end)};
  }

  NodeRuns runs_;                          // the first devices and links
  std::vector<Device> devices_;            // those after the runs
  std::map<DeviceId, std::string> names_;  // only names that differ from the default
  WireTable wires_;
  StridedList<Near> strands_;       // by link after the runs, the device that it leads to
  std::vector<LinkId> first_link_;  // by device after the runs, and the end
  std::vector<std::uint32_t> pattern_of_node_;
};

}  // namespace trainyard
