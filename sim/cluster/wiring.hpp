// The devices and directed links of a cluster: nodes of a pattern in closed form, all else in flat
// arrays of numbers, 12 bytes a link, and no text but for devices that somebody named.
//
// Links are numbered by the device they start at, those of one device in the order in which they
// were drawn (blueprint.hpp). So nodes stamped one behind the other have links of numbers one
// behind the other, and what a link joins is told by its number alone (node_runs.hpp). What a link
// is made of is one of a few wires, so a cluster with other speeds has the same links:
// change_wires().
//
//   for (const Link link : wiring.links_from(nic)) use(link.to, link.capacity);
#pragma once

#include <boost/iterator/counting_iterator.hpp>
#include <boost/iterator/transform_iterator.hpp>
#include <boost/range/iterator_range.hpp>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/cluster/node_runs.hpp"
#include "sim/cluster/wire.hpp"

namespace trainyard {

class Blueprint;

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
    Link operator()(LinkId id) const { return wiring->link(id); }
  };
  using Links = boost::iterator_range<
      boost::transform_iterator<LinkAt, boost::counting_iterator<LinkId>, Link>>;

  [[nodiscard]] std::uint32_t device_count() const {
    return static_cast<std::uint32_t>(devices_.size());
  }
  [[nodiscard]] const Device& device(DeviceId id) const { return devices_[id]; }
  [[nodiscard]] std::string name(DeviceId id) const;

  [[nodiscard]] std::uint32_t link_count() const {
    return runs_.link_count() + static_cast<std::uint32_t>(strands_.size());
  }
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
  [[nodiscard]] Links links() const { return range(0, link_count()); }
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
    for (std::size_t i = 0; i < strands_.size(); ++i)
      use(static_cast<LinkId>(runs_.link_count() + i), strands_[i]);
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
    for (LinkId id = 0; id < strands_.size(); ++id)
      strands_[id].wire = table.number(rewired(link(id)));
    wires_ = std::move(table);
  }

 private:
  friend class Blueprint;
  friend Wiring redrawn(const Wiring& whole,
                        const std::function<void(const Link&, Blueprint&)>& draw);
  static constexpr std::uint32_t kNoPattern = std::numeric_limits<std::uint32_t>::max();
  void write_out();  // every link by itself
  // What use(from, to, wire) makes of a link: three numbers, which stay in registers as a strand of
  // twelve bytes would not.
  template <class Use>
  std::invoke_result_t<Use, DeviceId, DeviceId, std::uint32_t> read(LinkId id, Use use) const {
    if (id < runs_.link_count()) return runs_.read(id, use);
    const Strand& strand = strands_[id - runs_.link_count()];
    return use(strand.from, strand.to, strand.wire);
  }
  [[nodiscard]] Links range(LinkId begin, LinkId end) const {
    const auto at = [&](LinkId id) {
      return boost::transform_iterator<LinkAt, boost::counting_iterator<LinkId>, Link>(
          boost::counting_iterator<LinkId>(id), LinkAt{this});
    };
    return {at(begin), at(end)};
  }

  std::vector<Device> devices_;
  std::map<DeviceId, std::string> names_;  // of those that have not the usual one
  WireTable wires_;
  NodeRuns runs_;                   // the first devices and links
  std::vector<Strand> strands_;     // of the devices behind them
  std::vector<LinkId> first_link_;  // by such device, and the end
  std::vector<std::uint32_t> pattern_of_node_;
};

}  // namespace trainyard
