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
  const std::uint32_t from = place.gpus[from_role];
  const std::uint32_t to = place.gpus[to_role];
  return crosses_nodes(place, from_role, to_role)
             ? latency.inter_step + place.cluster.extra_latency_rail_aligned(from, to)
             : latency.intra_step + place.cluster.extra_latency(from, to);
}

Seconds fabric_latency(const GroupPlace& place, std::span<const std::uint32_t> roles) {
  Seconds farthest = place.cluster.facts().latency.inter_step;
  for (const std::uint32_t role : roles)
    if (crosses_nodes(place, roles.front(), role))
      farthest = std::max(farthest, hop_latency(place, roles.front(), role));
  return farthest;
}

void LoadSum::add(const Route& route, double bytes) {
  constexpr std::size_t kSparse = 8;  // up to an eighth of all links, a list is cheaper
  if (bytes <= 0.0) return;
  if (!dense_ && added_.size() > links_ / kSparse) make_dense();
  if (dense_) {
    for (const RouteHop& hop : route) add_dense(hop.link, bytes * hop.fraction);
    return;
  }
  const std::size_t before = added_.size();
  added_.resize(before + route.size());
  std::ranges::transform(route, added_.begin() + static_cast<std::ptrdiff_t>(before),
                         [&](const RouteHop& hop) {
                           return LinkLoad{.link = hop.link, .bytes = bytes * hop.fraction};
                         });
}

void LoadSum::make_dense() {
  dense_ = true;
  bytes_.resize(links_, 0.0);
  for (const LinkLoad& load : added_) add_dense(load.link, load.bytes);
  added_.clear();
}

void LoadSum::add_dense(LinkId link, double bytes) {
  if (bytes_[link] == 0.0) touched_.push_back(link);
  bytes_[link] += bytes;
}

// Adds in the order of arrival, as the dense sum does, so that both give the same digits.
Chain LoadSum::take() {
  if (dense_) return take_dense();
  if (!std::ranges::is_sorted(added_, {}, &LinkLoad::link))
    std::ranges::stable_sort(added_, {}, &LinkLoad::link);
  Chain chain;
  chain.loads.reserve(added_.size());
  for (const LinkLoad& load : added_) {
    if (chain.loads.empty() || chain.loads.back().link != load.link) {
      chain.loads.push_back(load);
    } else {
      chain.loads.back().bytes += load.bytes;
    }
  }
  added_.clear();
  return chain;
}

Chain LoadSum::take_dense() {
  std::ranges::sort(touched_);
  Chain chain;
  chain.loads.reserve(touched_.size());
  for (const LinkId link : touched_) {
    chain.loads.push_back({.link = link, .bytes = bytes_[link]});
    bytes_[link] = 0.0;
  }
  touched_.clear();
  dense_ = false;
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
