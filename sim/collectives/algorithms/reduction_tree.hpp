// The tree of switches by which a fabric reduces (SHARP): leaves add what their NICs send, the
// switches above add what the leaves send, the root sends the sum back down.
//
//   const ReductionTree tree = reduction_tree(place, {0, 8, 16, 24}, 0);   // rail 0 of four nodes
//   tree.parent.at(tree.leaf[2]);           // the switch above the one where role 16 enters
#pragma once

#include <map>
#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard {

struct ReductionTree {
  std::vector<DeviceId> leaf;           // of each role given: the switch its NIC sends to
  std::map<DeviceId, DeviceId> parent;  // of every switch of the tree but the root
  DeviceId root = 0;

  // Is number `at` of the roles given at this switch or below it?
  [[nodiscard]] bool holds(DeviceId device, std::size_t at) const;
  // Every switch, each before its parent.
  [[nodiscard]] std::vector<DeviceId> upwards() const;
};

// The tree that joins the members of `roles`. The root is the switch from which the farthest leaf
// is nearest; where several are, number `turn` of them in turn, so that the trees of several rails
// spread over the spines. Nothing where the fabric has no switches that join them (NICs cabled to
// each other, planes that do not meet). REQUIRES: the roles stand on two nodes or more.
[[nodiscard]] std::optional<ReductionTree> reduction_tree(const GroupPlace& place,
                                                          const std::vector<std::uint32_t>& roles,
                                                          std::uint32_t turn);

}  // namespace trainyard
