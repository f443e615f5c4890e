// Sets of links that always carry equal loads, such as the uplinks from a leaf to the equal spines
// of its pod.
//
// Under ideal routing a switch spreads its traffic over its shortest paths in equal shares per
// cable. Switches with equivalent wiring therefore receive and forward equal loads, and links with
// equal wires between two such classes carry equal loads. The classes are those of the coarsest
// equitable partition of the fabric, in which every switch with endpoints is a separate class. One
// link represents its set: it is full when the others are, so the others add no constraint to a
// flow.
//
// Example: a pod of 16 leaves, 16 spines and 16 cores to each spine has 16 sets of 16 parallel
// uplinks and one set of 256 links to the cores, in place of 512 links. The downward direction has
// the same.
//
//    const ParallelLinks parallel = find_parallel_links(wiring);
//    parallel.of(link);   // the lowest of the links parallel to it
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "sim/base/strided_range.hpp"
#include "sim/cluster/wiring.hpp"

namespace trainyard {

class ParallelLinks {
 public:
  struct ParallelSet {
    LinkId lowest = 0;
    std::uint32_t begin = 0;  // [begin, end) in Parts::range
    std::uint32_t end = 0;
    std::uint32_t links = 0;
  };
  struct Parts {
    // All links and devices with lower numbers are single.
    LinkId first_link = std::numeric_limits<LinkId>::max();
    DeviceId first_device = std::numeric_limits<DeviceId>::max();
    StridedList<NoTag> of_link = {};
    std::vector<DeviceId> of_device = {};
    std::vector<ParallelSet> parallel_links = {};  // of two links or more, ascending
    std::vector<StridedRange> range = {};          // the links of all sets, set by set
  };

  // Every link and every switch is single.
  ParallelLinks() = default;
  explicit ParallelLinks(Parts parts) : parts_(std::move(parts)) {}

  // Returns the lowest link of the link's set; the link itself if it is single.
  [[nodiscard]] LinkId of(LinkId link) const {
    return link < parts_.first_link ? link : LinkId{parts_.of_link[link - parts_.first_link]};
  }
  // Returns of(link) for the links 0, 1, ..., links - 1.
  [[nodiscard]] std::vector<LinkId> of_each(std::uint32_t links) const;
  // Returns the lowest switch with equivalent wiring; the device itself if it is single.
  [[nodiscard]] DeviceId lowest_equivalent(DeviceId device) const {
    return device < parts_.first_device ? device : parts_.of_device[device - parts_.first_device];
  }
  // Returns all links of the set with this lowest link, ascending; none for a single link.
  [[nodiscard]] StridedSpan links(LinkId lowest) const;
  // Calls use(link) for each of `links` that is the lowest of its set. REQUIRES: the step is 1.
  template <class Use>
  void for_each_lowest(const StridedRange& links, Use use) const;

 private:
  Parts parts_;
};

template <class Use>
void ParallelLinks::for_each_lowest(const StridedRange& links, Use use) const {
  LinkId link{links.first};
  const LinkId end = link + links.count;
  for (; link < std::min(end, parts_.first_link); ++link) use(link);
  while (link < end) {
    const auto& [begin, lowest, tag] = parts_.of_link.piece_at(link - parts_.first_link);
    const LinkId first = parts_.first_link + begin;
    const LinkId last = std::min(end, first + lowest.count);
    const bool none = lowest.step == 1 && lowest.first != first;
    for (; !none && link < last; ++link)
      if (lowest[link - first] == link) use(link);
    link = last;
  }
}

// Finds the sets of parallel links under ideal routing. Links within a server and links to
// endpoints are single. The caller must check that a communication model does load them equally,
// because a model may address one particular switch.
[[nodiscard]] ParallelLinks find_parallel_links(const Wiring& wiring);

}  // namespace trainyard
