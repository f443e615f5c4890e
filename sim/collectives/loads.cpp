#include "sim/collectives/loads.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/collectives/placement.hpp"

namespace trainyard {

namespace {

LinkLoad loaded(const RouteHop& hop, double bytes) {
  return {.link = hop.link, .bytes = bytes * hop.fraction, .parallel_count = hop.parallel_count};
}

constexpr std::size_t kSparse = 8;  // below 1/8 of all links, a sorted list is cheaper than a table

// Order of loads by link. A set of parallel links and its lowest link alone are different entries.
bool by_link(const LinkLoad& a, const LinkLoad& b) {
  return a.link != b.link ? a.link < b.link : a.parallel_count < b.parallel_count;
}

// True if a GPU of the group rank's node is a member. The members on a node are neighbours in most
// groups, so the search starts there.
bool is_member(const PlacedGroup& placed, std::uint32_t near_group_rank, std::uint32_t gpu) {
  if (placed.gpus.size() == placed.cluster.gpus().size()) return true;
  const std::uint32_t around = placed.cluster.facts().gpus_per_node;
  const std::size_t begin = near_group_rank - std::min(near_group_rank, around);
  const std::size_t end = std::min<std::size_t>(placed.gpus.size(), near_group_rank + around);
  const auto near = placed.gpus.subspan(begin, end - begin);
  return std::ranges::find(near, gpu) != near.end() ||
         std::ranges::find(placed.gpus, gpu) != placed.gpus.end();
}

// True if a message between nodes may change to the receiver's rail on the sender's node: NCCL
// forwards it (PXN) only through a GPU of the same communicator. Two ranks may be a part of a
// larger one, as in a message of a pipeline or of a collective played step by step.
bool changes_rail(const PlacedGroup& placed, std::uint32_t from_group_rank,
                  std::uint32_t to_group_rank) {
  const Cluster& cluster = placed.cluster;
  const std::uint32_t from = placed.gpus[from_group_rank];
  const std::uint32_t to_local = cluster.local_index(placed.gpus[to_group_rank]);
  const std::uint32_t forwards = from - cluster.local_index(from) + to_local;
  return placed.gpus.size() == 2 || is_member(placed, from_group_rank, forwards);
}

}  // namespace

Route hop_route(const PlacedGroup& placed, std::uint32_t from_group_rank,
                std::uint32_t to_group_rank) {
  const std::uint32_t from = placed.gpus[from_group_rank];
  const std::uint32_t to = placed.gpus[to_group_rank];
  constexpr RouteDetail kParallelLinks = RouteDetail::ParallelLinks;
  const Router& router = placed.cluster.router();
  const bool rail_aligned = crosses_nodes(placed, from_group_rank, to_group_rank) &&
                            changes_rail(placed, from_group_rank, to_group_rank);
  return rail_aligned ? router.route_rail_aligned(from, to, kParallelLinks)
                      : router.route(from, to, kParallelLinks);
}

Seconds hop_latency(const PlacedGroup& placed, std::uint32_t from_group_rank,
                    std::uint32_t to_group_rank) {
  const CollectiveLatency& latency = placed.cluster.facts().latency;
  const std::uint32_t from = placed.gpus[from_group_rank];
  const std::uint32_t to = placed.gpus[to_group_rank];
  const LatencyModel& distance = placed.cluster.latency();
  if (!crosses_nodes(placed, from_group_rank, to_group_rank))
    return latency.intra_step + distance.extra(from, to);
  return latency.inter_step + (changes_rail(placed, from_group_rank, to_group_rank)
                                   ? distance.extra_rail_aligned(from, to)
                                   : distance.extra(from, to));
}

Seconds fabric_latency(const PlacedGroup& placed, std::span<const std::uint32_t> group_ranks) {
  Seconds farthest = placed.cluster.facts().latency.inter_step;
  for (const std::uint32_t group_rank : group_ranks)
    if (crosses_nodes(placed, group_ranks.front(), group_rank))
      farthest = std::max(farthest, hop_latency(placed, group_ranks.front(), group_rank));
  return farthest;
}

// Loads are a list until there are many; then the sum changes to a table by link.
void LoadSum::add(const Route& route, double bytes) {
  if (bytes <= 0.0) return;
  if (!dense_ && added_.size() > links_ / kSparse) make_dense();
  if (dense_) {
    for (const RouteHop& hop : route) add_dense(loaded(hop, bytes));
    return;
  }
  const std::size_t before = added_.size();
  added_.resize(before + route.size());
  std::ranges::transform(route, added_.begin() + static_cast<std::ptrdiff_t>(before),
                         [&](const RouteHop& hop) { return loaded(hop, bytes); });
}

void LoadSum::add(const MultiLinkFlow& flow) {
  if (!dense_ && added_.size() + flow.loads.size() > links_ / kSparse) make_dense();
  if (dense_) {
    for (const LinkLoad& load : flow.loads) add_dense(load);
  } else {
    added_.insert(added_.end(), flow.loads.begin(), flow.loads.end());
  }
}

void LoadSum::make_dense() {
  dense_ = true;
  bytes_.resize(links_, 0.0);
  for (const LinkLoad& load : added_) add_dense(load);
  added_.clear();
}

void LoadSum::add_dense(const LinkLoad& load) {
  if (load.parallel_count > 1) {
    const auto [known, fresh] = parallel_links_.try_emplace(load.link, load);
    if (!fresh) known->second.bytes += load.bytes;
    return;
  }
  lowest_ = std::min(lowest_, load.link);
  highest_ = std::max(highest_, load.link);
  if (bytes_[load.link] == 0.0) ++touched_;
  bytes_[load.link] += load.bytes;
}

// Sums the loads of a link in the order of their addition, as the dense form does. Both forms
// therefore give bitwise equal sums.
MultiLinkFlow LoadSum::take() {
  if (dense_) return take_dense();
  if (!std::ranges::is_sorted(added_, by_link)) std::ranges::stable_sort(added_, by_link);
  MultiLinkFlow flow;
  flow.loads.reserve(added_.size());
  for (const LinkLoad& load : added_) {
    if (flow.loads.empty() || by_link(flow.loads.back(), load)) {
      flow.loads.push_back(load);
    } else {
      flow.loads.back().bytes += load.bytes;
    }
  }
  added_.clear();
  return flow;
}

void LoadSum::take_into(std::vector<MultiLinkFlow>& flows) {
  if (MultiLinkFlow flow = take(); !flow.loads.empty()) flows.push_back(std::move(flow));
}

// Scans the links from the lowest to the highest. Where a flow uses many links, the scan is faster
// than sorting them. Sets of parallel links are sorted separately and merged into the result.
MultiLinkFlow LoadSum::take_dense() {
  std::vector<LinkLoad> parallel_links;
  for (const auto& [link, load] : parallel_links_) parallel_links.push_back(load);
  std::ranges::sort(parallel_links, by_link);
  MultiLinkFlow flow;
  flow.loads.reserve(std::exchange(touched_, 0) + parallel_links.size());
  auto set = parallel_links.begin();
  for (LinkId link = lowest_; link <= highest_; ++link) {
    if (bytes_[link] == 0.0) continue;
    for (; set != parallel_links.end() && set->link < link; ++set) flow.loads.push_back(*set);
    flow.loads.push_back({.link = link, .bytes = std::exchange(bytes_[link], 0.0)});
  }
  flow.loads.insert(flow.loads.end(), set, parallel_links.end());
  parallel_links_.clear();
  lowest_ = std::numeric_limits<LinkId>::max();
  highest_ = 0;
  dense_ = false;
  return flow;
}

void scale(std::vector<MultiLinkFlow>& flows, double factor) {
  for (MultiLinkFlow& flow : flows)
    for (LinkLoad& load : flow.loads) load.bytes *= factor;
}

double payload(const MultiLinkFlow& flow) {
  double most = 0.0;
  for (const LinkLoad& load : flow.loads) most = std::max(most, load.bytes);
  return most;
}

// The flows share links, so the bytes of all flows are added per link before the division.
Seconds links_need(const Cluster& cluster, std::span<const MultiLinkFlow> flows) {
  std::map<LinkId, double> bytes;
  for (const MultiLinkFlow& flow : flows)
    for (const LinkLoad& load : flow.loads) bytes[load.link] += load.bytes;
  double longest = 0.0;
  for (const auto& [link, carried] : bytes)
    longest = std::max(longest, carried / cluster.link(link).capacity.value());
  return Seconds{longest};
}

std::vector<MultiLinkFlow> all_flows(std::vector<Phase> phases) {
  std::vector<MultiLinkFlow> flows;
  for (Phase& phase : phases)
    for (MultiLinkFlow& flow : phase.flows) flows.push_back(std::move(flow));
  return flows;
}

namespace {

// The messages of a step run concurrently, so the slowest hop determines the latency of the phase.
Phase phase_of_step(const PlacedGroup& placed, std::span<const Message> messages, FlowOf flow_of,
                    LoadSum& loads) {
  Phase phase;
  std::vector<std::uint32_t> order(messages.size());
  std::iota(order.begin(), order.end(), 0U);
  // The messages of a sender must be consecutive, because they are summed into one flow.
  if (flow_of == FlowOf::Sender)
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return messages[a].from < messages[b].from; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Message& message = messages[order[i]];
    phase.latency = std::max(phase.latency, hop_latency(placed, message.from, message.to));
    loads.add(hop_route(placed, message.from, message.to), message.bytes);
    const bool goes_on = flow_of == FlowOf::Sender && i + 1 < order.size() &&
                         messages[order[i + 1]].from == message.from;
    if (goes_on) continue;
    loads.take_into(phase.flows);
  }
  return phase;
}

}  // namespace

// REQUIRES: the messages are in ascending order of their steps. The first phase also has the launch
// latency of the collective.
std::vector<Phase> phases_by_step(const PlacedGroup& placed, std::span<const Message> messages,
                                  FlowOf flow_of) {
  std::vector<Phase> phases;
  LoadSum loads(placed.cluster);
  for (std::size_t begin = 0; begin < messages.size();) {
    std::size_t end = begin;
    while (end < messages.size() && messages[end].step == messages[begin].step) ++end;
    TY_CHECK(begin == 0 || messages[begin].step > messages[begin - 1].step, begin);
    phases.push_back(phase_of_step(placed, messages.subspan(begin, end - begin), flow_of, loads));
    begin = end;
  }
  if (!phases.empty()) phases.front().latency += placed.cluster.facts().latency.launch;
  return phases;
}

}  // namespace trainyard
