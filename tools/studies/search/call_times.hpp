// How long collectives take that have their links for themselves, asked of the transport once for
// each kind of call and group.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>

#include "sim/cluster/cluster.hpp"
#include "sim/cluster/transport.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

class CallTimes {
 public:
  // Both must outlive this. `alike`: groups that lie alike in their nodes take alike long; else
  // nothing is known, and every answer is 0, which is a bound too.
  CallTimes(const Cluster& cluster, const Transport& transport, bool alike)
      : cluster_(cluster), transport_(transport), alike_(alike) {}

  // Of a collective of the group; 0 where the call is not the same for all members.
  [[nodiscard]] double least_seconds(const Workload& workload, GroupId group,
                                     std::uint32_t call) const;

 private:
  using Key = std::tuple<Call, std::size_t, std::uint32_t, std::uint32_t>;

  const Cluster& cluster_;
  const Transport& transport_;
  bool alike_;
  mutable std::map<Key, double> known_;
};

}  // namespace trainyard
