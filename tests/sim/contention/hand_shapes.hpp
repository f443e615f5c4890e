// Joint graphs of one group, whose shapes are written by hand.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/contention/joint_graph.hpp"

namespace trainyard::test {

inline JointGraph of_one_group(std::uint32_t shapes) {
  JointGraph joint;
  joint.traffic.resize(1);
  joint.traffic_of = {0};
  joint.first_shape = {0, shapes};
  joint.group_of_shape.assign(shapes, 0);
  joint.parallel_of.resize(1000);
  std::iota(joint.parallel_of.begin(), joint.parallel_of.end(), LinkId{});
  return joint;
}

// Shapes given as links with their loads, all of one group.
inline JointGraph shapes_on(const std::vector<std::vector<ShapeLoad>>& shapes,
                            std::vector<double> loads, std::vector<LinkId> links) {
  JointGraph joint = of_one_group(static_cast<std::uint32_t>(shapes.size()));
  joint.shape_offsets = {0};
  for (const std::vector<ShapeLoad>& shape : shapes) {
    joint.shape_loads.insert(joint.shape_loads.end(), shape.begin(), shape.end());
    joint.shape_offsets.push_back(joint.shape_loads.size());
  }
  joint.loads = std::move(loads);
  joint.links = std::move(links);
  joint.parallel_links.assign(1000, 1);
  return joint;
}

}  // namespace trainyard::test
