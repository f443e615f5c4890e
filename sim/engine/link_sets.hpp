// Sets of link classes that fill and empty together.
//
// Two link classes are crossed by the same flow classes, with weights in the same proportions. They
// are then busy at the same moments, and the utilisation of one is always the same multiple of that
// of the other. Only the tightest of them can hold a flow back. Such classes form one set, which is
// priced and watched once: a ring over 16 equal links costs as much as one link. Only contended
// weights count for prices (fold.hpp).
//
// A link with timed faults (sim/cluster/timed_faults.hpp) is a set of its own.
//
// The merge comes after folding. Before folding, links that are loaded equally by chance would
// break the symmetry between ranks.
//
//    LinkSets sets = merge_links(cluster, partition);
//    for (const LinkSets::Share& share : sets.of_flow[flow]) use(share.set, share.weight);
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/csr_lists.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/fold/fold.hpp"

namespace trainyard {

struct LinkSet {
  struct User {
    std::uint32_t flow_class = 0;
    double weight = 1.0;     // on the tightest class, in payloads (FlowClass::Weight::weight)
    double flow_load = 1.0;  // on the tightest class, in payloads (FlowClass::Weight::flow_load)
  };
  std::uint32_t tightest = 0;         // link class
  double capacity_bytes_per_s = 0.0;  // capacity of one link of the tightest class
  std::vector<User> users;            // sorted by flow class
};

struct LinkSets {
  struct Share {
    std::uint32_t set = 0;
    double weight = 1.0;  // on the set's tightest class
  };
  std::vector<LinkSet> sets;
  std::vector<std::uint32_t> set_of_class;  // indexed by link class; kNone: no weight on it counts
  std::vector<double> relative_use;         // utilisation of a class / that of its set's tightest
  CsrLists<Share> of_flow;                  // indexed by flow class
};

// The weights that count.
enum class LinkUses : std::uint8_t {
  Contended,     // the weights that are priced
  OfUncontended  // all weights on link classes that have at least one uncontended weight
};

[[nodiscard]] LinkSets merge_links(const Cluster& cluster, const Partition& partition,
                                   LinkUses uses = LinkUses::Contended);

}  // namespace trainyard
