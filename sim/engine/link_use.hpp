// How many bytes links carried, how long they were in use, and their peak utilisation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/engine/link_sets.hpp"
#include "sim/fold/fold.hpp"
#include "sim/timeline/timeline.hpp"

namespace trainyard {

// Records what links carry (bytes, time in use, peak utilisation) while flows start and end.
//
//    ledger.started(flow_class, now);
//    ledger.ended(flow_class, later);
//    ledger.reached(set, 0.8);   // a utilisation of the set's tightest class at an instant
//    std::vector<LinkUse> links = ledger.link_use();
class LinkLedger {
 public:
  LinkLedger(const Partition& partition, const LinkSets& sets);

  void started(std::uint32_t flow_class, double now_s);
  void ended(std::uint32_t flow_class, double now_s);
  // Counts flows that load no set and have moved their bytes.
  void passed(std::uint32_t flow_class, std::uint64_t flows) { flows_ended_[flow_class] += flows; }
  void reached(std::uint32_t set, double utilisation) {
    if (utilisation > use_[set].peak) use_[set].peak = utilisation;
  }
  [[nodiscard]] std::uint32_t alive_on(std::uint32_t set) const { return use_[set].alive; }
  [[nodiscard]] double peak_of(std::uint32_t set) const { return use_[set].peak; }

  [[nodiscard]] std::vector<LinkUse> link_use() const;

 private:
  struct SetUse {
    std::uint32_t alive = 0;
    double busy_since_s = 0.0;
    double busy_s = 0.0;
    double peak = 0.0;
  };
  const Partition& partition_;
  const LinkSets& sets_;
  std::vector<SetUse> use_;
  std::vector<std::uint64_t> flows_ended_;  // indexed by flow class
};

// Returns `use` with the busy time and the peak of every link class that carries an uncontended
// load (fold.hpp): no engine watches those links.
//
// The function sweeps over the transfers of a finished run in the order of time. A transfer counts
// with its mean rate over its life. That is its rate wherever nothing shared its links. A peak of
// transfers whose rates changed while they ran is therefore a peak of means. Busy time is exact.
// REQUIRES: flows are in order of start.
//
//    timeline.links = with_uncontended(cluster, partition, timeline.flows, timeline.links);
[[nodiscard]] std::vector<LinkUse> with_uncontended(const Cluster& cluster,
                                                    const Partition& partition,
                                                    std::span<const FlowSpan> flows,
                                                    std::vector<LinkUse> use);

}  // namespace trainyard
