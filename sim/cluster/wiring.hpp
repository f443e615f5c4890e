// The devices and directed links of a cluster in closed form: nodes of a pattern once, the links of
// a switch as series, and no text but for devices that somebody named.
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
    return runs_.device_count() + static_cast<std::uint32_t>(devices_.size());
  }
  [[nodiscard]] Device device(DeviceId id) const {
    return id < runs_.device_count() ? runs_.device(id) : devices_[id - runs_.device_count()];
  }
  // Devices from this one on are no part of a run of nodes alike (node_runs.hpp); all switches of
  // the fabric are among them.
  [[nodiscard]] DeviceId runs_end() const { return runs_.device_count(); }
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
    LinkId link = runs_.link_count();
    for (const auto& [begin, to, near] : strands_.pieces())
      for (std::uint32_t i = 0; i < to.count; ++i)
        use(link++, Strand{near.from, to[i], near.far.wire});
  }
  // Calls use(series) for the same links, each once. All ends of a series are of one kind.
  template <class Use>
  void for_each_series(Use use) const {
    runs_.for_each_series(use);
    for (const auto& piece : strands_.pieces()) use(series_of(piece));
  }
  // The same for those that start at a device that is not part of a run, ascending; links of its
  // node too.
  template <class Use>
  void for_each_series_from(DeviceId device, Use use) const {
    const LinkId end = first_link_from(device + 1) - runs_.link_count();
    for (LinkId place = first_link_from(device) - runs_.link_count(); place < end;) {
      const auto& piece = strands_.piece_at(place);
      use(series_of(piece));
      place += piece.series.count;
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
    SeriesList<Near> strands;
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
  // What the links of a series have in common.
  struct Near {
    DeviceId from = 0;
    Far far = {};
    bool operator==(const Near&) const = default;
  };
  static constexpr std::uint32_t kNoPattern = std::numeric_limits<std::uint32_t>::max();
  void write_out();  // every node by itself
  [[nodiscard]] LinkSeries series_of(const SeriesList<Near>::Piece& piece) const;
  // What use(from, to, wire) makes of a link: three numbers, which stay in registers as a strand of
  // twelve bytes would not.
  template <class Use>
  std::invoke_result_t<Use, DeviceId, DeviceId, std::uint32_t> read(LinkId id, Use use) const {
    if (id < runs_.link_count()) return runs_.read(id, use);
    const std::uint32_t place = id - runs_.link_count();
    const auto& [begin, to, near] = strands_.piece_at(place);
    return use(near.from, to[place - begin], near.far.wire);
  }
  [[nodiscard]] Links range(LinkId begin, LinkId end) const {
    const auto at = [&](LinkId id) {
      return boost::transform_iterator<LinkAt, boost::counting_iterator<LinkId>, Link>(
          boost::counting_iterator<LinkId>(id), LinkAt{this});
    };
    return {at(begin), at(end)};
  }

  NodeRuns runs_;                          // the first devices and links
  std::vector<Device> devices_;            // behind them
  std::map<DeviceId, std::string> names_;  // of those that have not the usual one
  WireTable wires_;
  SeriesList<Near> strands_;        // where the links of the devices behind the runs lead to
  std::vector<LinkId> first_link_;  // by such device, and the end
  std::vector<std::uint32_t> pattern_of_node_;
};

}  // namespace trainyard
