// Where the links of nodes alike lead out of them, gathered while a cluster is drawn
// (blueprint.hpp), for NodeRuns to keep.
//
//   OutletLists lists({.first = 0, .devices = 23, .nodes = 16'384});
//   lists.add({.first = 22, .step = 23, .count = 64}, leaf, far);   // the NICs of 64 nodes
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cluster/node_runs.hpp"

namespace trainyard {

class OutletLists {
 public:
  struct Extent {
    DeviceId first = 0;
    std::uint32_t devices = 0;  // of one node
    std::uint32_t nodes = 0;
  };
  explicit OutletLists(const Extent& extent);

  [[nodiscard]] bool holds(DeviceId id) const {
    return id >= extent_.first && id - extent_.first < extent_.devices * extent_.nodes;
  }
  // One more link from each of the devices to that one. REQUIRES: it holds them all.
  void add(const Series& from, DeviceId to, const Far& far);
  // Whether every node has as many links as the others, and they were told node by node.
  [[nodiscard]] bool are_alike() const;
  // By device of a node. REQUIRES: are_alike().
  [[nodiscard]] std::vector<std::vector<NodeRuns::Outlet>> taken() &&;

 private:
  struct Nodes {
    std::uint32_t begin = 0;
    std::uint32_t count = 0;
  };
  void add_at(std::uint32_t place, const Nodes& nodes, DeviceId to, const Far& far);

  Extent extent_;
  std::vector<std::vector<NodeRuns::Outlet>> lists_;  // each of the first nodes, as far as told
  bool in_turn_ = true;
};

}  // namespace trainyard
