// Joint graphs of one group with hand-written shapes.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "sim/contention/joint_graph.hpp"

namespace trainyard::test {

inline JointGraph of_one_group(const Cluster& cluster, std::uint32_t shapes) {
  GroupPlacements placed;
  placed.parallel = std::make_shared<const ParallelLinkIndex>(cluster, true);
  JointGraph joint;
  joint.placed = std::make_shared<const GroupPlacements>(std::move(placed));
  joint.first_shape = {0, shapes};
  joint.group_of_shape.assign(shapes, 0);
  return joint;
}

// Shapes given as links with their loads, all of one group.
inline JointGraph shapes_on(const Cluster& cluster,
                            const std::vector<std::vector<ShapeLoad>>& shapes,
                            std::vector<double> loads, std::vector<LinkId> links) {
  JointGraph joint = of_one_group(cluster, static_cast<std::uint32_t>(shapes.size()));
  joint.shape_offsets = {0};
  for (const std::vector<ShapeLoad>& shape : shapes) {
    joint.shape_loads.insert(joint.shape_loads.end(), shape.begin(), shape.end());
    joint.shape_offsets.push_back(joint.shape_loads.size());
  }
  joint.loads = std::move(loads);
  joint.links = std::move(links);
  return joint;
}

}  // namespace trainyard::test
