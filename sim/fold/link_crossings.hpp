// What crosses each link: the shapes of a joint graph, told by link.
//
// Known before any class is. A load is contended where its chain may meet another (contention.hpp);
// who finds that out writes it here, link by link.
//
//   LinkCrossings crossings(joint);
//   for (const LinkCrossings::Crossing& crossing : crossings.of(link)) use(crossing.shape);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/fold/joint_graph.hpp"

namespace trainyard {

class LinkCrossings {
 public:
  struct Crossing {
    std::uint32_t shape = 0;
    std::uint32_t load : 31 = 0;  // index into JointGraph::loads
    std::uint32_t contended : 1 = 0;
  };

  // None of them contended. REQUIRES: less than 2^31 distinct loads.
  explicit LinkCrossings(const JointGraph& joint);

  // By shape, and so by group; of links that are in shapes, those that stand for others.
  [[nodiscard]] std::span<const Crossing> of(LinkId link) const {
    return std::span(crossings_).subspan(begin_[link], begin_[link + 1] - begin_[link]);
  }
  [[nodiscard]] std::span<Crossing> of(LinkId link) {
    return std::span(crossings_).subspan(begin_[link], begin_[link + 1] - begin_[link]);
  }
  // REQUIRES: the shape crosses the link.
  [[nodiscard]] Crossing& at(LinkId link, std::uint32_t shape);
  // Link by link.
  [[nodiscard]] std::span<Crossing> all() { return crossings_; }

 private:
  std::vector<std::uint32_t> begin_;  // by link of the cluster; and the end
  std::vector<Crossing> crossings_;
};

}  // namespace trainyard
