#include "models/collectives/loads.hpp"

#include <algorithm>
#include <numeric>

#include "models/collectives/placement.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

Route hop_route(const GroupPlace& place, std::uint32_t from_role, std::uint32_t to_role) {
  const std::uint32_t from = place.gpus[from_role];
  const std::uint32_t to = place.gpus[to_role];
  return crosses_nodes(place, from_role, to_role) ? place.cluster.route_rail_aligned(from, to)
                                                  : place.cluster.route(from, to);
}

Seconds hop_latency(const GroupPlace& place, std::uint32_t from_role, std::uint32_t to_role) {
  const CollectiveLatency& latency = place.cluster.facts().latency;
  return crosses_nodes(place, from_role, to_role) ? latency.inter_step : latency.intra_step;
}

void LoadSum::add(const Route& route, double bytes) {
  if (bytes <= 0.0) return;
  for (const RouteHop& hop : route) {
    if (bytes_[hop.link] == 0.0) touched_.push_back(hop.link);
    bytes_[hop.link] += bytes * hop.fraction;
  }
}

Chain LoadSum::take() {
  std::sort(touched_.begin(), touched_.end());
  Chain chain;
  chain.loads.reserve(touched_.size());
  for (const LinkId link : touched_) {
    chain.loads.push_back({.link = link, .bytes = bytes_[link]});
    bytes_[link] = 0.0;
  }
  touched_.clear();
  return chain;
}

namespace {

Phase phase_of_step(const GroupPlace& place, std::span<const Message> messages, ChainOf chain_of,
                    LoadSum& loads) {
  Phase phase;
  std::vector<std::uint32_t> order(messages.size());
  std::iota(order.begin(), order.end(), 0U);
  if (chain_of == ChainOf::Sender)
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return messages[a].from < messages[b].from; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Message& message = messages[order[i]];
    phase.latency = std::max(phase.latency, hop_latency(place, message.from, message.to));
    loads.add(hop_route(place, message.from, message.to), message.bytes);
    const bool goes_on = chain_of == ChainOf::Sender && i + 1 < order.size() &&
                         messages[order[i + 1]].from == message.from;
    if (goes_on) continue;
    Chain chain = loads.take();
    if (!chain.loads.empty()) phase.chains.push_back(std::move(chain));
  }
  return phase;
}

}  // namespace

std::vector<Phase> phases_by_step(const GroupPlace& place, std::span<const Message> messages,
                                  ChainOf chain_of) {
  std::vector<Phase> phases;
  LoadSum loads(place.cluster);
  for (std::size_t begin = 0; begin < messages.size();) {
    std::size_t end = begin;
    while (end < messages.size() && messages[end].step == messages[begin].step) ++end;
    TY_CHECK(begin == 0 || messages[begin].step > messages[begin - 1].step, begin);
    phases.push_back(phase_of_step(place, messages.subspan(begin, end - begin), chain_of, loads));
    begin = end;
  }
  if (!phases.empty()) phases.front().latency += place.cluster.facts().latency.launch;
  return phases;
}

}  // namespace trainyard
