// The joint graph of a workload on a cluster: ranks, groups, chains and links, ready to be folded.
//
// Every group's calls are turned into phases once, through CommunicationModel; of groups in places
// alike (alike_places.hpp) one is asked, and the others have its phases on their own links. Chains
// of one group that load the same links in the same proportions share one *shape*, whatever their
// size, so that a group with forty calls of the same ring keeps one list of links.
//
// Of parallel links, which carry the same whatever is sent (sim/cluster/link_bundles.hpp), only the
// lowest is in a shape; it stands for all. Where a communication model loads one of them by itself,
// all links are told one by one.
//
//   JointGraph joint = join(cluster, workload, analysis, communication);
//   for (const GroupCall& made : joint.calls_of(group))
//     joint.shape(joint.first_shape[group] + made.phases[0].chains[0].shape);
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/cluster/communication_model.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// `count` equal chains of one phase.
struct ShapedChain {
  std::uint32_t shape = 0;  // among those of the group
  std::uint32_t count = 1;
  double payload_bytes = 0.0;  // on the most loaded link of one chain
  double rate_cap_bytes_per_s = std::numeric_limits<double>::infinity();
  // The cap that it has alone; set where the cap holds what other chains of its phase take.
  std::optional<double> rate_alone = {};
};

struct ShapedPhase {
  double latency_s = 0.0;
  std::vector<ShapedChain> chains;
};

struct GroupCall {
  std::uint32_t call = 0;
  std::vector<ShapedPhase> phases;
};

// One link of a shape; the load is relative to the most loaded link.
struct ShapeLoad {
  LinkId link = 0;
  std::uint32_t load = 0;  // index into JointGraph::loads
};

// A rank in a group, through its lowest slot bound to the group.
struct Membership {
  RankId rank = 0;
  GroupId group = 0;
  std::uint16_t slot = 0;
  std::uint32_t role = 0;  // 0 where the group makes no send
};

struct JointGraph {
  std::vector<Membership> memberships;  // through slots in use; sorted by rank, slot
  std::vector<std::vector<std::uint32_t>>
      slot_of;                                  // [rank][slot]: slot of the membership, or kNone
  std::vector<std::vector<GroupCall>> traffic;  // what groups do, by call; many do the same
  std::vector<std::uint32_t> traffic_of;        // [group]
  std::vector<std::uint32_t> first_shape;       // [group]: its shapes are in a row; and the end
  std::vector<GroupId> group_of_shape;
  std::vector<std::size_t> shape_offsets;     // of each shape in shape_loads, and the end
  std::vector<ShapeLoad> shape_loads;         // sorted by link within a shape
  std::vector<double> loads;                  // distinct relative loads, 0 < load <= 1
  std::vector<LinkId> links;                  // in use, ascending; of parallel ones the lowest
  std::vector<LinkId> parallel_of;            // by link of the cluster: the lowest parallel to it
  std::vector<std::uint32_t> parallel_links;  // by link of the cluster that is the lowest: how many

  [[nodiscard]] const std::vector<GroupCall>& calls_of(GroupId group) const {
    return traffic[traffic_of[group]];
  }
  [[nodiscard]] std::uint32_t shapes_of(GroupId group) const {
    return first_shape[group + 1] - first_shape[group];
  }
  [[nodiscard]] std::span<const ShapeLoad> shape(std::uint32_t index) const {
    return std::span(shape_loads)
        .subspan(shape_offsets[index], shape_offsets[index + 1] - shape_offsets[index]);
  }
};

class AlikePlaces;
class ProgramAnalysis;

// `analysis` is of the workload. `places` are the cluster's, found beforehand; without them they
// are found here. REQUIRES: the workload is valid (validate in workload.hpp) and its ranks' GPUs
// are of the cluster.
[[nodiscard]] JointGraph join(const Cluster& cluster, const Workload& workload,
                              const ProgramAnalysis& analysis,
                              const CommunicationModel& communication,
                              AlikePlaces* places = nullptr);

// The same with every link by itself: to hold join() against.
[[nodiscard]] JointGraph join_link_by_link(const Cluster& cluster, const Workload& workload,
                                           const ProgramAnalysis& analysis,
                                           const CommunicationModel& communication);

// Whether what is done for every link takes far longer than it takes to start a thread (some 50
// us): from 8 192 GPUs on.
[[nodiscard]] bool is_large(const Cluster& cluster);

// Of keys made of numbers.
struct KeyHash {
  [[nodiscard]] std::size_t operator()(const std::vector<std::uint64_t>& key) const;
};

// A number as an exact key, with numbers nearer than 2^-40 of their size made one: sums in another
// order must not tell links apart.
[[nodiscard]] std::uint64_t rounded_key(double value);

}  // namespace trainyard
