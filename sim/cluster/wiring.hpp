// The devices and directed links of a cluster in closed form: nodes of a pattern once, the links of
// a switch as series, and no text but for devices that somebody named.
//
// Links are numbered by the device they start at, those of one device in the order in which they
// were drawn (blueprint.hpp). So nodes stamped one behind the other have links of numbers one
// behind the other, and the number of a link alone tells what it joins (NodeRuns). Every link is
// made of one of a few wires, so a cluster with other speeds has the same links: change_wires().
//
//   for (const Link link : wiring.links_from(nic)) use(link.to, link.capacity);
//   wiring.for_each_range([&](const StridedLinks& links) { use(links.from[0], links.to[0]); });
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

// The wire of the links of a series, and the kind of the devices at their other ends.
struct Far {
  std::uint32_t wire = 0;
  DeviceKind kind = DeviceKind::Gpu;
  bool operator==(const Far&) const = default;
};

// Links in closed form: of a leaf to its 64 spines the first link, the first spine, and how far it
// is from each to the next. The numbers of the links ascend.
struct StridedLinks {
  StridedRange links = {};  // the count of this one is that of all
  StridedRange from = {};
  StridedRange to = {};
  DeviceKind from_kind = DeviceKind::Gpu;
  DeviceKind to_kind = DeviceKind::Gpu;
  std::uint32_t wire = 0;
};

// Nodes alike that are numbered one behind the other.
//
// Nodes of a run have as many devices each, and each device as many links as its like in the other
// nodes, so device d of node n is first + n * devices + d, and links are numbered alike. Links
// within a node are kept once for the run. A link that leaves its node is an outlet: a list of
// series says where it leads from each node.
//
// Worked: 16 384 nodes of 23 devices and 66 links, 8 of which lead to switches that 64 nodes share,
// are 66 entries and 8 lists of 256 series in place of 1 081 344 links.
class NodeRuns {
 public:
  using Outlet = StridedList<Far>;  // by node of the run, the device it leads to

  // One node of a run, its devices numbered from 0.
  struct Node {
    std::vector<Device> devices;               // `node` is of no account
    std::vector<Strand> inner;                 // ascending by the device they start at
    std::vector<std::vector<Outlet>> outlets;  // by device; they come behind its inner links
  };

  // Adds a run of so many nodes behind those there are; the first has that number.
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
  // Returns the place of a device among those of its node. REQUIRES: id < device_count().
  [[nodiscard]] std::uint32_t place_of(DeviceId id) const {
    const Run& run = of_device(id);
    return (id - run.first_device) % run.devices;
  }
  // True where these are nodes 0, 1, ... to that number, in this order.
  [[nodiscard]] bool are_nodes(std::uint32_t count) const;
  // The other devices of the node follow it. REQUIRES: are_nodes(), of more than `node`.
  [[nodiscard]] DeviceId first_device_of(std::uint32_t node) const {
    const Run& run = of_node(node);
    return run.first_device + (node - run.first_node) * run.devices;
  }
  [[nodiscard]] std::uint32_t devices_of(std::uint32_t node) const { return of_node(node).devices; }
  // Returns use(from, to, wire) of the link. REQUIRES: id < link_count().
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
  // Calls use(node, first_node, count) with what add() was told of each run, but for its outlets.
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
                return Strand{from, to, wire};
              }));
  }
  // Calls use(links) for all outlets, each once.
  template <class Use>
  void for_each_range(Use use) const {
    for (const Run& run : runs_)
      for (std::size_t outlet = 0; outlet < run.outlets.size(); ++outlet)
        for (const Outlet::Piece& piece : run.outlets[outlet].pieces())
          use(series_of(run, outlet, piece));
  }

 private:
  struct Entry {
    std::uint32_t from = 0;  // in the node
    std::uint32_t to = 0;    // in the node; of an outlet its number among those of the node
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
    std::vector<std::uint32_t> outlet_links = {};   // those links of a node that are outlets
    std::vector<Outlet> outlets = {};               // these
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
  // Most clusters have one run.
  [[nodiscard]] const Run& of_link(LinkId id) const {
    return runs_.size() == 1 ? runs_.front() : last_from(id, &Run::first_link);
  }
  [[nodiscard]] const Run& of_device(DeviceId id) const {
    return runs_.size() == 1 ? runs_.front() : last_from(id, &Run::first_device);
  }
  [[nodiscard]] const Run& of_node(std::uint32_t node) const {
    return runs_.size() == 1 ? runs_.front() : last_from(node, &Run::first_node);
  }
  // Runs that hold no links begin where the next one does and are passed over.
  template <class Number>
  [[nodiscard]] const Run& last_from(Number number, Number Run::*first) const {
    return *std::prev(std::ranges::upper_bound(runs_, number, {}, first));
  }

  std::vector<Run> runs_;
  std::uint32_t devices_ = 0;
  std::uint32_t links_ = 0;
};

// Wires by number, equal ones once.
class WireTable {
 public:
  std::uint32_t number(const Wire& wire);
  [[nodiscard]] const Wire& operator[](std::uint32_t number) const { return wires_[number]; }
  [[nodiscard]] const std::vector<Wire>& all() const { return wires_; }

 private:
  friend class Wiring;
  std::vector<Wire> wires_;
  std::map<Wire, std::uint32_t> numbers_;
  std::uint32_t last_ = 0;  // most wires are like the one before
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
  // Devices from this one on are no part of a run of nodes alike; all switches of the fabric are
  // among them.
  [[nodiscard]] DeviceId runs_end() const { return DeviceId{runs_.device_count()}; }
  [[nodiscard]] const NodeRuns& runs() const { return runs_; }
  [[nodiscard]] std::string name(DeviceId id) const;

  [[nodiscard]] std::uint32_t link_count() const { return runs_.link_count() + strands_.size(); }
  [[nodiscard]] Strand strand(LinkId id) const {
    return read(id, [](DeviceId from, DeviceId to, std::uint32_t wire) {
      return Strand{from, to, wire};
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
  // Where those begin; of the number behind the last device, the number of all links.
  [[nodiscard]] LinkId first_link_from(DeviceId device) const {
    return device < runs_.device_count() ? runs_.first_link_from(device)
                                         : first_link_[device - runs_.device_count()];
  }
  // Calls use(link, strand) for every link that is not within a node stamped from a pattern, in
  // their order: all that are on the fabric's side are among them.
  template <class Use>
  void for_each_outside_patterns(Use use) const {
    runs_.for_each_outlet(use);
    LinkId link{runs_.link_count()};
    for (const auto& [begin, to, near] : strands_.pieces())
      for (std::uint32_t i = 0; i < to.count; ++i, ++link)
        use(link, Strand{near.from, DeviceId{to[i]}, near.far.wire});
  }
  // Calls use(series) for the same links, each once. All ends of a series are of one kind.
  template <class Use>
  void for_each_range(Use use) const {
    runs_.for_each_range(use);
    for (const auto& piece : strands_.pieces()) use(series_of(piece));
  }
  // Does so for the links that start at a device that is not part of a run, ascending; links of its
  // node too.
  template <class Use>
  void for_each_range_from(DeviceId device, Use use) const {
    const std::uint32_t end = first_link_from(device + 1) - runs_.link_count();
    for (std::uint32_t place = first_link_from(device) - runs_.link_count(); place < end;) {
      const auto& piece = strands_.piece_at(place);
      use(series_of(piece));
      place += piece.range.count;
    }
  }

  // Nodes of one pattern have the same devices in the same order, and each of these starts with
  // the same links to others of the node. Nothing where nothing is known of a node.
  [[nodiscard]] std::optional<std::uint32_t> pattern_of(std::uint32_t node) const;

  // `change` takes every kind of wire there is, once, and may give it other figures.
  template <class Change>
  void change_wires(Change change) {
    for (Wire& wire : wires_.wires_) change(wire);
    wires_.numbers_.clear();
  }
  // `rewired` says of every link what it is made of from now on.
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
  friend Wiring redrawn_outside(const Wiring& whole,
                                const std::function<void(const Link&, Blueprint&)>& draw);
  // The start, the wire and the kind of ends that the links of a series have in common.
  struct Near {
    DeviceId from = 0;
    Far far = {};
    bool operator==(const Near&) const = default;
  };
  static constexpr std::uint32_t kNoPattern = std::numeric_limits<std::uint32_t>::max();
  void write_out();  // every node by itself
  [[nodiscard]] StridedLinks series_of(const StridedList<Near>::Piece& piece) const;
  // Returns use(from, to, wire) of a link: three numbers, which stay in registers as a strand of
  // twelve bytes would not.
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
  std::vector<Device> devices_;            // behind them
  std::map<DeviceId, std::string> names_;  // of those that have not the usual one
  WireTable wires_;
  StridedList<Near> strands_;       // where the links of the devices behind the runs lead to
  std::vector<LinkId> first_link_;  // by such device, and the end
  std::vector<std::uint32_t> pattern_of_node_;
};

}  // namespace trainyard
