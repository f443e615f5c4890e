// Links in a row that carry the same whatever is sent: GPU to PCIe switch to NIC to leaf.
//
// A PCIe switch or a NIC between two neighbours, with a link each way to both, passes on to one
// what comes from the other: no way ends there and none turns back. The links of such a row are
// loaded alike, so the one with the least capacity holds back whatever the others would, and can
// stand for all.
//
//   const std::vector<LinkId> stands = link_rows(cluster);
//   stands[l];   // the one that stands for l's row; l itself where it is in none
#pragma once

#include <vector>

#include "sim/cluster/cluster.hpp"

namespace trainyard {

// By link. Whether a transport really loads them alike is for its user to check: it may begin or
// end at a NIC.
[[nodiscard]] std::vector<LinkId> link_rows(const Cluster& cluster);

// Links of which one stands for others, as trees with the strongest at the root: that with the
// least capacity, and of equals what refinement tells apart, so that in symmetric places the choice
// is the same.
class LinkRows {
 public:
  // Every link stands in `stands` behind another of its row, or itself.
  LinkRows(const Cluster& cluster, std::vector<LinkId> stands);

  // Makes one row of those of two links.
  void join(LinkId a, LinkId b);

  // By link, the strongest of its row.
  [[nodiscard]] std::vector<LinkId> strongest() &&;

 private:
  [[nodiscard]] LinkId root_of(LinkId link);
  [[nodiscard]] bool is_stronger(LinkId a, LinkId b) const;

  const Cluster& cluster_;
  std::vector<LinkId> root_;  // by link: another of its row, or itself
};

// Every link by itself.
[[nodiscard]] std::vector<LinkId> each_link(const Cluster& cluster);

}  // namespace trainyard
