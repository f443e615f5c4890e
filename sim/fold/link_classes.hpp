// Classes of links that carry exactly the same, and what each class of chains puts on them.
//
// Links of one refined class that also carry the same loads of the same classes of chains,
// contended or not, are one class. So a link class has one answer to "how many bytes", for reports
// as well as for prices.
//
//   LinkClasses links = classify_links(cluster, joint, limits, refined_links, refined_shapes);
//   links.loads_of_shape_class[shape_class][0].together;
#pragma once

#include <cstdint>
#include <vector>

#include "sim/contention/joint_graph.hpp"
#include "sim/contention/link_limits.hpp"

namespace trainyard {

// Relative to the payload of one chain.
struct ClassLoad {
  std::uint32_t link_class = 0;
  double together = 0.0;  // of all shapes of the class on any one link of the link class
  double most = 0.0;      // of one of them
  bool contended = true;
  bool operator==(const ClassLoad&) const = default;
};

struct LinkClasses {
  std::vector<std::uint32_t> of_link;  // by position in JointGraph::links; by lowest link
  std::vector<std::vector<ClassLoad>> loads_of_shape_class;  // sorted by link class
};

// `refined_links` is by position in JointGraph::links, `shape_classes` by shape.
[[nodiscard]] LinkClasses classify_links(const Cluster& cluster, const JointGraph& joint,
                                         const LinkLimits& limits,
                                         const std::vector<std::uint32_t>& refined_links,
                                         const std::vector<std::uint32_t>& shape_classes);

}  // namespace trainyard
