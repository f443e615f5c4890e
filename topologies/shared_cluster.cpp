// The cluster that was asked for last (shared_cluster() of topology.hpp).
#include <mutex>
#include <utility>

#include "topologies/topology.hpp"

namespace trainyard {

namespace {

struct Kept {
  std::mutex mutex;
  ClusterSpec spec;
  std::shared_ptr<const Cluster> cluster;
};

// Never taken down: at its end a process gives back its memory at once, a hundred thousand devices
// one by one take longer.
Kept& kept() {
  static Kept& last = *new Kept;
  return last;
}

}  // namespace

std::shared_ptr<const Cluster> shared_cluster(const ClusterSpec& spec) {
  Kept& last = kept();
  const std::scoped_lock lock(last.mutex);
  if (last.cluster && last.spec == spec) return last.cluster;
  last.cluster.reset();  // two large clusters need not be in memory at once
  last.cluster = std::make_shared<const Cluster>(build_cluster(spec));
  last.spec = spec;
  return last.cluster;
}

}  // namespace trainyard
