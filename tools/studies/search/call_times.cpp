#include "tools/studies/search/call_times.hpp"

#include <algorithm>
#include <vector>

namespace trainyard {

namespace {

double chain_seconds(const Cluster& cluster, const Chain& chain) {
  double payload = 0.0;
  for (const LinkLoad& load : chain.loads) payload = std::max(payload, load.bytes);
  if (payload <= 0.0) return 0.0;
  double seconds = payload / chain.rate_cap_bytes_per_s;
  for (const LinkLoad& load : chain.loads)
    seconds = std::max(seconds, load.bytes / cluster.link(load.link).capacity.value());
  return seconds;
}

double alone_seconds(const Cluster& cluster, const std::vector<Phase>& phases) {
  double seconds = 0.0;
  for (const Phase& phase : phases) {
    double longest = 0.0;
    for (const Chain& chain : phase.chains)
      longest = std::max(longest, chain_seconds(cluster, chain));
    seconds += phase.latency.value() + longest;
  }
  return seconds;
}

}  // namespace

double CallTimes::least_seconds(const Workload& workload, GroupId group, std::uint32_t call) const {
  const Call& asked = workload.calls.at(call);
  if (!alike_ || !matrix_of(asked).empty() || std::holds_alternative<RelayCall>(asked)) return 0.0;
  std::vector<std::uint32_t> gpus;
  for (const RankId member : workload.groups.at(group).members)
    gpus.push_back(workload.ranks.at(member).gpu);
  if (gpus.size() < 2) return 0.0;
  // Members in steps of one within a node: the place of the first says how the others lie.
  for (std::size_t i = 1; i < gpus.size(); ++i) {
    if (gpus[i] != gpus[0] + i || cluster_.node_of(gpus[i]) != cluster_.node_of(gpus[0]))
      return 0.0;
  }
  const Key key{asked, gpus.size(), cluster_.local_index(gpus[0]), 1};
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  const double seconds = alone_seconds(cluster_, transport_.phases(asked, gpus));
  known_.emplace(key, seconds);
  return seconds;
}

}  // namespace trainyard
