// The joint graph of a workload on a cluster: ranks, groups, flows and links, ready to be folded.
//
// CommunicationModel turns the calls of every group into phases once. For groups in isomorphic
// placements (isomorphic_placements.hpp) it is queried for one group; the others have its phases on
// their own links. Flows of one group that load the same links in the same proportions share one
// *shape*, whatever their size: a group with forty calls of the same ring stores one list of links.
//
// Parallel links always carry the same load (sim/cluster/parallel_links.hpp). A shape names only
// the lowest of them, as the representative of the set. Where a communication model loads one of
// them separately, shapes name all links.
//
// The graph holds proportions, and no bytes, seconds or rates: those are the traffic. A cluster
// with other rates mostly has the same graph.
//
//    const auto [joint, traffic] = join(cluster, workload, communication);
//    for (const GroupCall& made : traffic.of(group))
//      joint->shape(joint->first_shape[group] + made.phases[0].flows[0].shape);
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/base/memo.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/cluster/communication_model.hpp"
#include "sim/contention/folded_calls.hpp"
#include "sim/contention/group_placements.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// `count` equal flows of one phase.
struct ShapedFlow {
  std::uint32_t shape = 0;  // number among the shapes of the group
  std::uint32_t count = 1;
  double payload_bytes = 0.0;  // on the most loaded link of one flow
  double rate_cap_bytes_per_s = std::numeric_limits<double>::infinity();
  // The rate cap of the flow without contention. Set where rate_cap_bytes_per_s includes the effect
  // of other flows of its phase (closed_phases.hpp).
  std::optional<double> rate_alone = {};
};

struct ShapedPhase {
  double latency_s = 0.0;
  std::vector<ShapedFlow> flows;
};

struct GroupCall {
  std::uint32_t call = 0;
  std::vector<ShapedPhase> phases;
};

// One link of a shape; the load is relative to the most loaded link.
struct ShapeLoad {
  LinkId link = 0;
  std::uint32_t load = 0;  // index into JointGraph::loads
  bool operator==(const ShapeLoad&) const = default;
};

// The phases of the calls of groups; many groups share them.
struct GroupTraffic {
  std::vector<std::vector<GroupCall>> calls;  // indexed by of_group
  std::vector<std::uint32_t> of_group;        // by group: index into calls

  [[nodiscard]] const std::vector<GroupCall>& of(GroupId group) const {
    return calls[of_group[group]];
  }
};

struct JointGraph {
  std::shared_ptr<const GroupPlacements> placed;  // the groups' members and placements
  // By group: its first shape; its shapes are consecutive. The last entry is the end.
  std::vector<std::uint32_t> first_shape;
  std::vector<GroupId> group_of_shape;
  std::vector<std::size_t> shape_offsets;  // begin of each shape in shape_loads, and the end
  std::vector<ShapeLoad> shape_loads;      // sorted by link within a shape
  std::vector<double> loads;               // distinct relative loads, 0 < load <= 1
  std::vector<LinkId> links;               // links in use, ascending; the lowest of parallel ones

  [[nodiscard]] std::uint32_t shapes_of(GroupId group) const {
    return first_shape[group + 1] - first_shape[group];
  }
  [[nodiscard]] std::span<const ShapeLoad> shape(std::uint32_t index) const {
    return std::span(shape_loads)
        .subspan(shape_offsets[index], shape_offsets[index + 1] - shape_offsets[index]);
  }
};

// A joint graph, and the traffic on it.
struct Joined {
  std::shared_ptr<const JointGraph> graph;
  GroupTraffic traffic;
};

// Results of an earlier fold of the same workload and cluster.
struct FoldCache {
  // Holds the workload's analysis; a null one is computed.
  FoldedCalls calls = {};
  // The cluster's placements; null: they are computed.
  std::shared_ptr<IsomorphicPlacements> places = {};
  // Values of earlier workloads and clusters.
  Memo* memo = nullptr;
};

// Builds the joint graph. REQUIRES: the workload is valid (validate in workload.hpp) and its ranks'
// GPUs are of the cluster.
[[nodiscard]] Joined join(const Cluster& cluster, const Workload& workload,
                          const CommunicationModel& communication, const FoldCache& known = {});

// Builds the graph with every link by itself: a reference for join().
[[nodiscard]] Joined join_link_by_link(const Cluster& cluster, const Workload& workload,
                                       const CommunicationModel& communication);

// Whether a second thread pays off for work on every link: starting a thread takes some 50 us. True
// from 8 192 GPUs on.
[[nodiscard]] bool is_large(const Cluster& cluster);

}  // namespace trainyard
