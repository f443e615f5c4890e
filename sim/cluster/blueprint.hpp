// A builder for Wiring: a caller adds devices and links, and wiring() numbers them at the end.
//
//    Blueprint blueprint;
//    const DeviceId leaf = blueprint.add({.kind = DeviceKind::LeafSwitch, .index = 0});
//    blueprint.cable(nic, leaf, wire);   // both directions
//    const Wiring wiring = std::move(blueprint).wiring();
//
// Identical nodes are described once as a pattern and stamped. Consecutive links between devices
// with consecutive numbers are stored as one series. A regular cluster therefore costs memory and
// time by its series, not by its links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sim/cluster/wiring.hpp"

namespace trainyard {

class Blueprint;
// Adds the links that replace a link.
using DrawLink = std::function<void(const Link&, Blueprint&)>;

class Blueprint {
 public:
  Blueprint() = default;
  // Starts with the devices of `like` and without links.
  explicit Blueprint(const Wiring& like);

  DeviceId add(const Device& device);  // with its default name
  DeviceId add(const Device& device, std::string name);
  void link(DeviceId from, DeviceId to, const Wire& wire);
  void cable(DeviceId a, DeviceId b, const Wire& wire);  // both directions
  // Adds a cable from each device of `a` to each device of `b`. REQUIRES: no device is in both.
  void join(std::span<const DeviceId> a, std::span<const DeviceId> b, const Wire& wire);

  // Returns the number of a pattern to stamp. REQUIRES: `node` is the wiring of a single node, with
  // default names, without switches and links of the fabric.
  std::uint32_t add_pattern(const Wiring& node);
  // Adds a copy of the pattern as the given node. Returns its first device; the others follow in
  // the order of the pattern. The inner links of a device come before its other links.
  DeviceId stamp(std::uint32_t pattern, std::uint32_t node);

  // Throws InputError if there are more links than 32 bits can number. add() and stamp() throw it
  // for too many devices.
  [[nodiscard]] Wiring wiring() &&;

 private:
  friend Wiring with_replaced_links(const Wiring& whole, const DrawLink& draw);
  friend Wiring with_replaced_outer_links(const Wiring& whole, const DrawLink& draw);
  struct Pattern {
    std::vector<Device> devices;
    std::vector<LinkEnds> inner;  // with wire numbers of this blueprint
  };
  struct Extent {
    DeviceId first = 0;
    std::uint32_t devices = 0;  // of one node
    std::uint32_t nodes = 0;
  };
  class OutletLists;
  // Copies of one pattern with consecutive numbers, before all other devices.
  struct Stamps {
    std::uint32_t pattern = 0;
    std::uint32_t node = 0;  // the first node
    Extent extent = {};
  };
  // Links outside of patterns: from each device of `from` to each device of `to`.
  struct Loose {
    StridedRange from;
    StridedRange to;
    std::uint32_t wire = 0;
    bool both = false;  // adds the opposite direction too
  };
  [[nodiscard]] Device device(DeviceId id) const;
  [[nodiscard]] bool are_alike(DeviceId a, DeviceId b) const;
  [[nodiscard]] std::vector<StridedRange> in_series(std::span<const DeviceId> ids) const;
  void draw(const Loose& loose);
  void redraw(const Link& link, const DrawLink& draw);
  [[nodiscard]] bool last_replaces(const Link& link, std::size_t links_before) const;
  // Returns the number for the next device. Throws InputError if `more` devices exceed 32 bits.
  [[nodiscard]] DeviceId next_device(std::uint64_t more) const;
  void check_links() const;
  template <class Use>
  void for_each_way(Use use) const;
  void build_runs();
  void add_outlets(std::vector<OutletLists>& lists) const;
  void expand(const Stamps& stamps, std::vector<Device>& devices) const;
  void build_links();

  Wiring drawn_;  // its links are filled in by wiring()
  std::vector<Pattern> patterns_;
  std::vector<Stamps> stamps_;  // those that are not yet runs
  DeviceId stamped_ = 0;        // number of devices in stamps_
  std::vector<Loose> loose_;    // in the order in which they were added
  std::size_t links_drawn_ = 0;
  Loose last_;  // the last link passed to draw(), not merged into a series
};

// Returns the same devices with other links. It calls draw(link, blueprint) for each link in turn;
// `draw` adds the links that replace it: one, several or none, between the same two devices. A node
// loses its pattern unless each inner link is replaced by exactly one link of the same kind and
// cables.
[[nodiscard]] Wiring with_replaced_links(const Wiring& whole, const DrawLink& draw);
// Does the same as with_replaced_links(), but leaves links inside the nodes of runs. `draw`
// receives all other links.
[[nodiscard]] Wiring with_replaced_outer_links(const Wiring& whole, const DrawLink& draw);

}  // namespace trainyard
