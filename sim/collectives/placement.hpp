// Where the members of a group stand: by node, in the order of the GPUs within it.
//
//   Placement placement = placement_of(place);
//   placement.nodes[0];       // roles on the first node, by local index
//   placement.smallest();     // members on the node that has the fewest
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard {

struct Placement {
  std::vector<std::vector<std::uint32_t>> nodes;  // roles; nodes by number, members by GPU

  [[nodiscard]] std::size_t smallest() const;
  [[nodiscard]] std::size_t largest() const;
  [[nodiscard]] bool even() const { return smallest() == largest(); }
};

[[nodiscard]] Placement placement_of(const GroupPlace& place);

// Rails on which channels enter and leave nodes, as positions among a node's members: one for each
// member of the node that has the fewest. Where a NIC stands in for a dead one, channels of all the
// members would meet at it; the members it was lent to are left out, on every node alike, as long
// as the channels that remain are quicker.
[[nodiscard]] std::vector<std::uint32_t> rails_of(const GroupPlace& place,
                                                  const Placement& placement);

// Do two members stand on different nodes?
[[nodiscard]] bool crosses_nodes(const GroupPlace& place, std::uint32_t from_role,
                                 std::uint32_t to_role);

// "8 ranks on GPUs 0, 1, 2, 3, ..., 15", for messages to users.
[[nodiscard]] std::string describe(std::span<const std::uint32_t> gpus);

}  // namespace trainyard
