// The joint graph of a workload on a cluster: ranks, groups, flows and links, ready to be folded.
//
// Every group's calls are turned into phases once, through CommunicationModel; of groups in places
// alike (isomorphic_placements.hpp) one is asked, and the others have its phases on their own
// links. Flows of one group that load the same links in the same proportions share one *shape*,
// whatever their size, so that a group with forty calls of the same ring keeps one list of links.
//
// Parallel links carry the same whatever is sent (sim/cluster/parallel_links.hpp). Only the
// lowest is in a shape; it stands for all. Where a communication model loads one of them by itself,
// all links are told one by one.
//
// The graph holds proportions, and no bytes, seconds or rates: those are the traffic. A cluster
// with other rates mostly has the same graph.
//
//   const auto [joint, traffic] = join(cluster, workload, communication);
//   for (const GroupCall& made : traffic.of(group))
//     joint->shape(joint->first_shape[group] + made.phases[0].flows[0].shape);
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
  std::uint32_t shape = 0;  // among those of the group
  std::uint32_t count = 1;
  double payload_bytes = 0.0;  // on the most loaded link of one flow
  double rate_cap_bytes_per_s = std::numeric_limits<double>::infinity();
  // The cap that it has alone; set where the cap holds what other flows of its phase take.
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
  std::vector<std::vector<GroupCall>> calls;  // by call
  std::vector<std::uint32_t> of_group;        // index into calls

  [[nodiscard]] const std::vector<GroupCall>& of(GroupId group) const {
    return calls[of_group[group]];
  }
};

struct JointGraph {
  std::shared_ptr<const GroupPlacements> placed;  // who is in which group, and where
  std::vector<std::uint32_t> first_shape;         // [group]: its shapes are in a row; and the end
  std::vector<GroupId> group_of_shape;
  std::vector<std::size_t> shape_offsets;  // of each shape in shape_loads, and the end
  std::vector<ShapeLoad> shape_loads;      // sorted by link within a shape
  std::vector<double> loads;               // distinct relative loads, 0 < load <= 1
  std::vector<LinkId> links;               // in use, ascending; of parallel ones the lowest

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
struct FoldKnown {
  FoldedCalls calls = {};  // with the workload's analysis; without it is found
  std::shared_ptr<IsomorphicPlacements> places = {};  // of the cluster; null: they are found
  Memo* memo = nullptr;                               // of what workloads and clusters alike gave
};

// REQUIRES: the workload is valid (validate in workload.hpp) and its ranks' GPUs are of the
// cluster.
[[nodiscard]] Joined join(const Cluster& cluster, const Workload& workload,
                          const CommunicationModel& communication, const FoldKnown& known = {});

// The same with every link by itself: to hold join() against.
[[nodiscard]] Joined join_link_by_link(const Cluster& cluster, const Workload& workload,
                                       const CommunicationModel& communication);

// Whether what is done for every link takes far longer than it takes to start a thread (some 50
// us): from 8 192 GPUs on.
[[nodiscard]] bool is_large(const Cluster& cluster);

}  // namespace trainyard
