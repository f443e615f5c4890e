// Links that carry the same whatever is sent: the uplinks of a leaf to the equal spines of its pod.
//
// Under ideal routing a switch deals what it gets to its shortest paths in equal shares per cable.
// So switches that are wired alike (the coarsest equitable partition of the fabric, with every
// switch that has endpoints in a class of its own) get alike and pass on alike, and links between
// two such classes always carry the same. One of a set of parallel links can stand for all: where
// the others are full it is, so they add nothing to what limits a flow.
//
// Worked: a pod of 16 leaves, 16 spines and 16 cores to each spine has 16 sets of parallel links of
// 16 uplinks and one of 256 links to the cores, in place of 512 links; downwards the same.
//
//   const ParallelLinks parallel = find_parallel_links(wiring);
//   parallel.of(link);   // the lowest of the links parallel to it
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
    std::uint32_t begin = 0;  // in Parts::series
    std::uint32_t end = 0;
    std::uint32_t links = 0;
  };
  struct Parts {
    // All links and devices before these are alone.
    LinkId first_link = std::numeric_limits<LinkId>::max();
    DeviceId first_device = std::numeric_limits<DeviceId>::max();
    StridedList<NoTag> of_link = {};
    std::vector<DeviceId> of_device = {};
    std::vector<ParallelSet> parallel_links = {};  // of two links or more, ascending
    std::vector<StridedRange> range =
        {};  // their links, set of parallel links by set of parallel links
  };

  // Every link and every switch is alone.
  ParallelLinks() = default;
  explicit ParallelLinks(Parts parts) : parts_(std::move(parts)) {}

  // The lowest link of its set of parallel links; itself where it is alone.
  [[nodiscard]] LinkId of(LinkId link) const {
    return link < parts_.first_link ? link : LinkId{parts_.of_link[link - parts_.first_link]};
  }
  // Returns the lowest link of its set of parallel links for each of so many links.
  [[nodiscard]] std::vector<LinkId> of_each(std::uint32_t links) const;
  // The lowest switch wired as it is; itself where it is alone.
  [[nodiscard]] DeviceId wired_like(DeviceId device) const {
    return device < parts_.first_device ? device : parts_.of_device[device - parts_.first_device];
  }
  // All links of several parallel links by its lowest, ascending; none for a link that is alone.
  [[nodiscard]] StridedSpan links(LinkId lowest) const;
  // Calls use(link) for those of the links that are the lowest of their set of parallel links.
  // REQUIRES: the step is 1.
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

// Finds the sets of parallel links of ideal routing. Links within a server and to endpoints are
// alone. Whether a communication model really loads them alike is for its user to check: it may
// address a switch by name.
[[nodiscard]] ParallelLinks find_parallel_links(const Wiring& wiring);

}  // namespace trainyard
