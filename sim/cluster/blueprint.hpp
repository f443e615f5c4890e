// A cluster being drawn: devices and links are added, then numbered once and for all.
//
//   Blueprint blueprint;
//   const DeviceId leaf = blueprint.add({.kind = DeviceKind::LeafSwitch, .index = 0});
//   blueprint.cable(nic, leaf, wire);   // both directions
//   const Wiring wiring = std::move(blueprint).wiring();
//
// Nodes alike are drawn once and stamped: their links are copied with other numbers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/cluster/wiring.hpp"

namespace trainyard {

class Blueprint {
 public:
  Blueprint() = default;
  // The same devices without any links.
  explicit Blueprint(const Wiring& like);

  DeviceId add(const Device& device);  // with its usual name
  DeviceId add(const Device& device, std::string name);
  void link(DeviceId from, DeviceId to, const Wire& wire);
  void cable(DeviceId a, DeviceId b, const Wire& wire);  // both directions

  // The number of a pattern to stamp. REQUIRES: a node with usual names, drawn by itself, without
  // links of the fabric.
  std::uint32_t add_pattern(Wiring node);
  // The first device of a copy of the pattern, as this node; the others follow in its order. Its
  // links come before all others of its devices.
  DeviceId stamp(std::uint32_t pattern, std::uint32_t node);

  [[nodiscard]] Wiring wiring() &&;

 private:
  friend Wiring redrawn(const Wiring& whole,
                        const std::function<void(const Link&, Blueprint&)>& draw);
  struct Stamp {
    std::uint32_t pattern = 0;
    DeviceId first = 0;
  };
  // Outside of patterns.
  struct Loose {
    Strand strand;
    bool both = false;  // and the same back
  };
  [[nodiscard]] bool last_replaces(const Link& link, std::size_t links_before) const;
  [[nodiscard]] std::vector<std::uint32_t> count_loose() const;
  void lay_runs(const std::vector<std::uint32_t>& loose);
  void place_links(std::vector<std::uint32_t> links);

  Wiring drawn_;                  // its links last
  std::vector<Wiring> patterns_;  // with the numbers of wires as here
  std::vector<Stamp> stamps_;
  std::vector<Loose> loose_;  // in the order drawn
};

// The same devices with other links: `draw` is given each link in turn and draws what shall be in
// its place, one, several or none, with the same ends. Nodes whose inner links do not stay one for
// one, of the same kind and cables, lose their pattern.
[[nodiscard]] Wiring redrawn(const Wiring& whole,
                             const std::function<void(const Link&, Blueprint&)>& draw);

}  // namespace trainyard
