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
  return {.link = hop.link, .bytes = bytes * hop.fraction, .alike = hop.alike};
}

constexpr std::size_t kSparse = 8;  // up to an eighth of all links, a list is cheaper

// A bundle and its lowest link by itself are two.
bool by_place(const LinkLoad& a, const LinkLoad& b) {
  return a.link != b.link ? a.link < b.link : a.alike < b.alike;
}

}  // namespace

Route hop_route(const GroupPlace& place, std::uint32_t from_role, std::uint32_t to_role) {
  const std::uint32_t from = place.gpus[from_role];
  const std::uint32_t to = place.gpus[to_role];
  constexpr RouteDetail kBundles = RouteDetail::Bundles;
  return crosses_nodes(place, from_role, to_role)
             ? place.cluster.router().route_rail_aligned(from, to, kBundles)
             : place.cluster.router().route(from, to, kBundles);
}

Seconds hop_latency(const GroupPlace& place, std::uint32_t from_role, std::uint32_t to_role) {
  const CollectiveLatency& latency = place.cluster.facts().latency;
  const std::uint32_t from = place.gpus[from_role];
  const std::uint32_t to = place.gpus[to_role];
  return crosses_nodes(place, from_role, to_role)
             ? latency.inter_step + place.cluster.latency().extra_rail_aligned(from, to)
             : latency.intra_step + place.cluster.latency().extra(from, to);
}

Seconds fabric_latency(const GroupPlace& place, std::span<const std::uint32_t> roles) {
  Seconds farthest = place.cluster.facts().latency.inter_step;
  for (const std::uint32_t role : roles)
    if (crosses_nodes(place, roles.front(), role))
      farthest = std::max(farthest, hop_latency(place, roles.front(), role));
  return farthest;
}

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

void LoadSum::add(const Chain& chain) {
  if (!dense_ && added_.size() + chain.loads.size() > links_ / kSparse) make_dense();
  if (dense_) {
    for (const LinkLoad& load : chain.loads) add_dense(load);
  } else {
    added_.insert(added_.end(), chain.loads.begin(), chain.loads.end());
  }
}

void LoadSum::make_dense() {
  dense_ = true;
  bytes_.resize(links_, 0.0);
  for (const LinkLoad& load : added_) add_dense(load);
  added_.clear();
}

void LoadSum::add_dense(const LinkLoad& load) {
  if (load.alike > 1) {
    const auto [known, fresh] = bundles_.try_emplace(load.link, load);
    if (!fresh) known->second.bytes += load.bytes;
    return;
  }
  lowest_ = std::min(lowest_, load.link);
  highest_ = std::max(highest_, load.link);
  if (bytes_[load.link] == 0.0) ++touched_;
  bytes_[load.link] += load.bytes;
}

// Adds in the order of arrival, as the dense sum does, so that both give the same digits.
Chain LoadSum::take() {
  if (dense_) return take_dense();
  if (!std::ranges::is_sorted(added_, by_place)) std::ranges::stable_sort(added_, by_place);
  Chain chain;
  chain.loads.reserve(added_.size());
  for (const LinkLoad& load : added_) {
    if (chain.loads.empty() || by_place(chain.loads.back(), load)) {
      chain.loads.push_back(load);
    } else {
      chain.loads.back().bytes += load.bytes;
    }
  }
  added_.clear();
  return chain;
}

void LoadSum::take_into(std::vector<Chain>& chains) {
  if (Chain chain = take(); !chain.loads.empty()) chains.push_back(std::move(chain));
}

// Goes through the links from the lowest to the highest: where many are touched that is quicker
// than to sort those.
Chain LoadSum::take_dense() {
  std::vector<LinkLoad> bundles;
  for (const auto& [link, load] : bundles_) bundles.push_back(load);
  std::ranges::sort(bundles, by_place);
  Chain chain;
  chain.loads.reserve(std::exchange(touched_, 0) + bundles.size());
  auto bundle = bundles.begin();
  for (LinkId link = lowest_; link <= highest_; ++link) {
    if (bytes_[link] == 0.0) continue;
    for (; bundle != bundles.end() && bundle->link < link; ++bundle) chain.loads.push_back(*bundle);
    chain.loads.push_back({.link = link, .bytes = std::exchange(bytes_[link], 0.0)});
  }
  chain.loads.insert(chain.loads.end(), bundle, bundles.end());
  bundles_.clear();
  lowest_ = std::numeric_limits<LinkId>::max();
  highest_ = 0;
  dense_ = false;
  return chain;
}

double payload(const Chain& chain) {
  double most = 0.0;
  for (const LinkLoad& load : chain.loads) most = std::max(most, load.bytes);
  return most;
}

Seconds links_need(const Cluster& cluster, std::span<const Chain> chains) {
  std::map<LinkId, double> bytes;
  for (const Chain& chain : chains)
    for (const LinkLoad& load : chain.loads) bytes[load.link] += load.bytes;
  double longest = 0.0;
  for (const auto& [link, carried] : bytes)
    longest = std::max(longest, carried / cluster.link(link).capacity.value());
  return Seconds{longest};
}

std::vector<Chain> all_chains(std::vector<Phase> phases) {
  std::vector<Chain> chains;
  for (Phase& phase : phases)
    for (Chain& chain : phase.chains) chains.push_back(std::move(chain));
  return chains;
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
    loads.take_into(phase.chains);
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
