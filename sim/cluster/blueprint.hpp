// A cluster being drawn: devices and links are added, then numbered once and for all.
//
//   Blueprint blueprint;
//   const DeviceId leaf = blueprint.add({.kind = DeviceKind::LeafSwitch, .index = 0});
//   blueprint.cable(nic, leaf, wire);   // both directions
//   const Wiring wiring = std::move(blueprint).wiring();
//
// Nodes alike are drawn once and stamped, and links drawn one behind the other between devices that
// are numbered one behind the other are kept as one: what is regular costs by its parts, not by its
// links.
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
// Draws what shall be in the place of a link.
using DrawLink = std::function<void(const Link&, Blueprint&)>;

class Blueprint {
 public:
  Blueprint() = default;
  // Begins with the same devices and no links.
  explicit Blueprint(const Wiring& like);

  DeviceId add(const Device& device);  // with its usual name
  DeviceId add(const Device& device, std::string name);
  void link(DeviceId from, DeviceId to, const Wire& wire);
  void cable(DeviceId a, DeviceId b, const Wire& wire);  // both directions
  // A cable from each of the ones to each of the others. REQUIRES: none is on both sides.
  void join(std::span<const DeviceId> a, std::span<const DeviceId> b, const Wire& wire);

  // The number of a pattern to stamp. REQUIRES: a node with usual names, drawn by itself, without
  // switches and links of the fabric.
  std::uint32_t add_pattern(const Wiring& node);
  // The first device of a copy of the pattern, as this node; the others follow in its order. Its
  // links come before all others of its devices.
  DeviceId stamp(std::uint32_t pattern, std::uint32_t node);

  // Throws InputError where links are more than 32 bits can number; add() and stamp() do of
  // devices.
  [[nodiscard]] Wiring wiring() &&;

 private:
  friend Wiring redrawn(const Wiring& whole, const DrawLink& draw);
  friend Wiring redrawn_outside(const Wiring& whole, const DrawLink& draw);
  struct Pattern {
    std::vector<Device> devices;
    std::vector<Strand> inner;  // with the numbers of wires as here
  };
  struct Extent {
    DeviceId first = 0;
    std::uint32_t devices = 0;  // of one node
    std::uint32_t nodes = 0;
  };
  class OutletLists;
  // Copies of one pattern in a row, in front of all other devices.
  struct Stamps {
    std::uint32_t pattern = 0;
    std::uint32_t node = 0;  // the first
    Extent extent = {};
  };
  // Links outside of patterns: from each of the ones to each of the others.
  struct Loose {
    StridedRange from;
    StridedRange to;
    std::uint32_t wire = 0;
    bool both = false;  // and the same back
  };
  [[nodiscard]] Device device(DeviceId id) const;
  [[nodiscard]] bool are_alike(DeviceId a, DeviceId b) const;
  [[nodiscard]] std::vector<StridedRange> in_series(std::span<const DeviceId> ids) const;
  void draw(const Loose& loose);
  void redraw(const Link& link, const DrawLink& draw);
  [[nodiscard]] bool last_replaces(const Link& link, std::size_t links_before) const;
  // The number behind the last device. Throws InputError where so many more have none.
  [[nodiscard]] DeviceId next_device(std::uint64_t more) const;
  void check_links() const;
  template <class Use>
  void for_each_way(Use use) const;
  void lay_runs();
  void add_outlets(std::vector<OutletLists>& lists) const;
  void expand(const Stamps& stamps, std::vector<Device>& devices) const;
  void lay_strands();

  Wiring drawn_;  // its links last
  std::vector<Pattern> patterns_;
  std::vector<Stamps> stamps_;  // those that are no runs yet
  DeviceId stamped_ = 0;        // devices of these
  std::vector<Loose> loose_;    // in the order drawn
  std::size_t links_drawn_ = 0;
  Loose last_;  // the last link drawn, by itself
};

// Returns the same devices with other links: `draw` is given each link in turn and draws what shall
// be in its place, one, several or none, with the same ends. Nodes whose inner links do not stay
// one for one, of the same kind and cables, lose their pattern.
[[nodiscard]] Wiring redrawn(const Wiring& whole, const DrawLink& draw);
// Does the same but keeps the inside of runs of nodes alike: `draw` is given all other links.
[[nodiscard]] Wiring redrawn_outside(const Wiring& whole, const DrawLink& draw);

}  // namespace trainyard
