// From messages and hops to what they put on links, in the terms of
// sim/cluster/communication_model.hpp.
//
//   LoadSum loads(place.cluster);
//   loads.add(hop_route(place, 0, 1), 1e9);
//   MultiLinkFlow flow = loads.take();       // links sorted, each once; ready for the next flow
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard {

// How bytes travel from one member to another: as NCCL sends them, on the rail of the receiver
// (PXN). Told by sets of parallel links.
[[nodiscard]] Route hop_route(const GroupPlace& place, std::uint32_t from_group_rank,
                              std::uint32_t to_group_rank);

// Latency of one step between two members: the cluster's step latency, which stands for the
// reference distance (one switch between two NICs; the nearest GPU in a node), plus what the route
// of the message costs beyond it (LatencyModel::extra). Three switches with 0.5 us a hop: 14 us
// become 15 us.
[[nodiscard]] Seconds hop_latency(const GroupPlace& place, std::uint32_t from_group_rank,
                                  std::uint32_t to_group_rank);

// The same through switches that add or copy, for members on several nodes that a tree of them
// joins: as far as from the first to the farthest of the others.
[[nodiscard]] Seconds fabric_latency(const GroupPlace& place,
                                     std::span<const std::uint32_t> group_ranks);

// Adds up the bytes on each link of one flow. Costs what the flow loads, not what the cluster
// has: most flows touch a handful of links of a cluster of a hundred thousand.
class LoadSum {
 public:
  explicit LoadSum(const Cluster& cluster) : links_(cluster.links().size()) {}
  void add(const Route& route, double bytes);
  void add(const MultiLinkFlow& flow);
  // The flow of all that was added since the last take; without links when nothing was.
  [[nodiscard]] MultiLinkFlow take();
  // Appends that flow, unless it is without links.
  void take_into(std::vector<MultiLinkFlow>& flows);

 private:
  void make_dense();
  void add_dense(const LinkLoad& load);
  [[nodiscard]] MultiLinkFlow take_dense();

  std::size_t links_ = 0;
  std::vector<LinkLoad> added_;  // as they came, while they are few
  // Once a flow has touched many: by link by itself, zero in between; and which may not be.
  std::vector<double> bytes_;
  std::size_t touched_ = 0;  // how many that is
  LinkId lowest_ = std::numeric_limits<LinkId>::max();
  LinkId highest_ = 0;
  std::unordered_map<LinkId, LinkLoad> parallel_links_;  // by lowest link; there are few
  bool dense_ = false;
};

// The bytes on the link that the flow loads most.
[[nodiscard]] double payload(const MultiLinkFlow& flow);
// How long the links need at least for all flows at once.
[[nodiscard]] Seconds links_need(const Cluster& cluster, std::span<const MultiLinkFlow> flows);
// The flows of all phases.
[[nodiscard]] std::vector<MultiLinkFlow> all_flows(std::vector<Phase> phases);

// How the messages of one step become flows: each by itself, or all of one sender as one
// lock-stepped flow (a direct exchange posts its sends at once and they share the sender's port
// equally).
enum class FlowOf : std::uint8_t { Message, Sender };

// One phase per step, in the order of steps: for algorithms whose members go from step to step
// together. The launch latency is in the first phase. REQUIRES: steps of messages do not decrease.
[[nodiscard]] std::vector<Phase> phases_by_step(const GroupPlace& place,
                                                std::span<const Message> messages, FlowOf flow_of);

}  // namespace trainyard
