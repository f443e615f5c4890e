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

// Records the time in use and the peak utilisation of links while flows start and end.
//
//    ledger.started(flow_class, now);
//    ledger.ended(flow_class, later);
//    ledger.reached(set, 0.8);   // a utilisation of the set's tightest class at an instant
//    std::vector<LinkUse> links = ledger.watched();
class LinkLedger {
 public:
  // `sets` outlives the object.
  explicit LinkLedger(const LinkSets& sets) : sets_(sets), use_(sets.sets.size()) {}

  void started(std::uint32_t flow_class, double now_s);
  void ended(std::uint32_t flow_class, double now_s);
  void reached(std::uint32_t set, double utilisation) {
    if (utilisation > use_[set].peak) use_[set].peak = utilisation;
  }
  [[nodiscard]] std::uint32_t alive_on(std::uint32_t set) const { return use_[set].alive; }
  [[nodiscard]] double peak_of(std::uint32_t set) const { return use_[set].peak; }

  // Returns the use by link class, without bytes.
  [[nodiscard]] std::vector<LinkUse> watched() const;

 private:
  struct SetUse {
    std::uint32_t alive = 0;
    double busy_since_s = 0.0;
    double busy_s = 0.0;
    double peak = 0.0;
  };
  const LinkSets& sets_;
  std::vector<SetUse> use_;
};

// Returns the use of every link class in a finished run: the bytes of its transfers, and the busy
// time and the peak of `watched`, or of a sweep for every class that carries an uncontended load
// (fold.hpp), because no engine watches those links.
//
// The sweep goes over the transfers in the order of time. A transfer counts with its mean rate over
// its life. That is its rate wherever nothing shared its links. A peak of transfers whose rates
// changed while they ran is therefore a peak of means. Busy time is exact. REQUIRES: flows are in
// order of start.
//
//    timeline.links = link_use(cluster, partition, timeline.flows, ledger.watched());
[[nodiscard]] std::vector<LinkUse> link_use(const Cluster& cluster, const Partition& partition,
                                            std::span<const FlowSpan> flows,
                                            std::vector<LinkUse> watched);

}  // namespace trainyard
