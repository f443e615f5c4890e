// Classes of links that carry exactly the same, and what each class of chains puts on them.
//
// Links of one refined class that also carry the same loads of the same classes of chains,
// contended or not, are one class. So a link class has one answer to "how many bytes", for reports
// as well as for prices.
//
//   const LinkCrossings crossings(joint, contention);
//   LinkClasses links = classify_links(joint, contention, crossings, refined_links,
//   refined_shapes); links.loads_of_shape_class[shape_class][0].together;
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/graph/contention.hpp"
#include "sim/graph/joint_graph.hpp"

namespace trainyard {

// What crosses each link that no other stands for: known before any class is.
class LinkCrossings {
 public:
  static constexpr std::uint32_t kMostLoads = (1U << 31U) - 1;  // distinct ones
  struct Crossing {
    std::uint32_t shape = 0;
    std::uint32_t load : 31 = 0;  // index into JointGraph::loads
    std::uint32_t contended : 1 = 0;
  };

  LinkCrossings(const JointGraph& joint, const Contention& contention);

  // By position among the links in use that no other stands for.
  [[nodiscard]] std::span<const Crossing> of(std::size_t position) const {
    return std::span(crossings_).subspan(begin_[position], begin_[position + 1] - begin_[position]);
  }

 private:
  std::vector<std::uint32_t> begin_;
  std::vector<Crossing> crossings_;
};

// Relative to the payload of one chain.
struct ClassLoad {
  std::uint32_t link_class = 0;
  double together = 0.0;  // of all shapes of the class on any one link of the link class
  double most = 0.0;      // of one of them
  bool contended = true;
};

struct LinkClasses {
  std::vector<std::uint32_t> of_link;  // by position in JointGraph::links; by lowest link
  std::vector<std::vector<ClassLoad>> loads_of_shape_class;  // sorted by link class
};

// `refined_links` is by position in JointGraph::links, `shape_classes` by shape.
[[nodiscard]] LinkClasses classify_links(const JointGraph& joint, const Contention& contention,
                                         const LinkCrossings& crossings,
                                         const std::vector<std::uint32_t>& refined_links,
                                         const std::vector<std::uint32_t>& shape_classes);

}  // namespace trainyard
