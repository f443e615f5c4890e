// Conversion of messages and hops to loads on links, in the terms of
// sim/cluster/communication_model.hpp.
//
//    LoadSum loads(placed.cluster);
//    loads.add(hop_route(placed, 0, 1), 1e9);
//    MultiLinkFlow flow = loads.take();       // links sorted, each once; ready for the next flow
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard {

// The route of bytes from one member to another. Between nodes it uses the rail of the receiver, as
// NCCL does (PXN), if the GPU of this rail on the sender's node is a member; otherwise the sender's
// own NIC. A set of parallel links is one hop of the route.
[[nodiscard]] Route hop_route(const PlacedGroup& placed, std::uint32_t from_group_rank,
                              std::uint32_t to_group_rank);

// Latency of one step between two members. It is the step latency of the cluster, which covers the
// reference distance (one switch between two NICs, or the nearest GPU within a node), plus the
// extra latency of the route of this message (LatencyModel::extra). Example: three switches with
// 0.5 us a hop raise 14 us to 15 us.
[[nodiscard]] Seconds hop_latency(const PlacedGroup& placed, std::uint32_t from_group_rank,
                                  std::uint32_t to_group_rank);

// Latency of one step through switches that add or copy, for members on several nodes that a tree
// of these switches joins: the latency from the first member to the farthest of the others.
[[nodiscard]] Seconds fabric_latency(const PlacedGroup& placed,
                                     std::span<const std::uint32_t> group_ranks);

// Sums the bytes on each link of one flow. The cost is proportional to the links of the flow, not
// to the links of the cluster: most flows use a handful of links of a cluster with a hundred
// thousand.
class LoadSum {
 public:
  explicit LoadSum(const Cluster& cluster) : links_(cluster.links().size()) {}
  void add(const Route& route, double bytes);
  void add(const MultiLinkFlow& flow);
  // Returns the flow of all loads added since the last take(). It has no links if there were none.
  [[nodiscard]] MultiLinkFlow take();
  // Appends that flow to `flows` unless it has no links.
  void take_into(std::vector<MultiLinkFlow>& flows);

 private:
  void make_dense();
  void add_dense(const LinkLoad& load);
  [[nodiscard]] MultiLinkFlow take_dense();

  std::size_t links_ = 0;
  std::vector<LinkLoad> added_;  // in order of addition, while there are few
  // Dense form, for a flow with many links: bytes by single link. It is zero between flows; within
  // a flow only links from lowest_ to highest_ are non-zero.
  std::vector<double> bytes_;
  std::size_t touched_ = 0;  // number of non-zero links
  LinkId lowest_ = std::numeric_limits<LinkId>::max();
  LinkId highest_ = 0;
  std::unordered_map<LinkId, LinkLoad> parallel_links_;  // sets, by lowest link; there are few
  bool dense_ = false;
};

// Multiplies the bytes of all flows by the factor.
void scale(std::vector<MultiLinkFlow>& flows, double factor);
// Bytes on the most loaded link of the flow.
[[nodiscard]] double payload(const MultiLinkFlow& flow);
// Lower bound of the time that the links need for all flows together: the largest bytes / capacity
// of a link, in seconds.
[[nodiscard]] Seconds links_need(const Cluster& cluster, std::span<const MultiLinkFlow> flows);
// The flows of all phases.
[[nodiscard]] std::vector<MultiLinkFlow> all_flows(std::vector<Phase> phases);

// The grouping of the messages of one step into flows: one flow per message, or one lock-stepped
// flow per sender (in a direct exchange a member posts all its sends at once, and they share its
// port equally).
enum class FlowOf : std::uint8_t { Message, Sender };

// Returns one phase per step, in the order of the steps, for algorithms whose members proceed from
// step to step together. The first phase includes the launch latency. REQUIRES: the steps of the
// messages do not decrease.
[[nodiscard]] std::vector<Phase> phases_by_step(const PlacedGroup& placed,
                                                std::span<const Message> messages, FlowOf flow_of);

}  // namespace trainyard
