#include "sim/collectives/relay.hpp"

#include <algorithm>
#include <boost/pending/disjoint_sets.hpp>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "sim/base/check.hpp"
#include "sim/collectives/loads.hpp"
#include "sim/collectives/switch_routes.hpp"

namespace trainyard {

std::vector<std::uint32_t> relay_keys(std::span<const Message> messages, std::uint32_t ranks) {
  boost::disjoint_sets_with_storage<> sets(messages.size());
  for (std::uint32_t index = 0; index < messages.size(); ++index) {
    if (messages[index].from < ranks) continue;
    for (const std::uint32_t before : messages[index].after) sets.union_set(index, before);
  }
  std::vector<std::uint32_t> last(messages.size(), kNone);  // by set
  for (std::uint32_t index = 0; index < messages.size(); ++index) {
    const Message& message = messages[index];
    if (message.from < ranks && message.to >= ranks) last[sets.find_set(index)] = index;
  }
  std::vector<std::uint32_t> keys(messages.size(), kNone);
  for (std::uint32_t index = 0; index < messages.size(); ++index) {
    const Message& message = messages[index];
    if (message.from < ranks && message.to < ranks) continue;
    keys[index] = last[sets.find_set(index)];
    TY_CHECK(keys[index] != kNone, index);
    TY_CHECK(message.to >= ranks || index > keys[index], index);
  }
  return keys;
}

std::vector<Relay> relays_of(std::span<const Message> messages, std::span<const std::uint32_t> keys,
                             std::uint32_t ranks) {
  std::map<std::uint32_t, Relay> by_key;
  for (std::uint32_t index = 0; index < messages.size(); ++index)
    if (keys[index] != kNone) by_key[keys[index]].messages.push_back(index);
  std::vector<Relay> relays;
  for (auto& [key, relay] : by_key) {
    std::set<std::uint32_t> senders;
    std::set<std::uint32_t> receivers;
    for (const std::uint32_t index : relay.messages) {
      if (messages[index].from < ranks) senders.insert(messages[index].from);
      if (messages[index].to < ranks) receivers.insert(messages[index].to);
    }
    relay.key = key;
    std::ranges::set_union(senders, receivers, std::back_inserter(relay.members));
    if (receivers.size() == 1) relay.op = CollectiveOp::Reduce;
    if (senders.size() == 1) relay.op = CollectiveOp::Broadcast;
    relays.push_back(std::move(relay));
  }
  return relays;
}

RelayCall relay_call(std::span<const Message> messages, const Relay& relay,
                     std::span<const DeviceId> parties, const Cut& cut, const Call& call) {
  RelayCall made{.op = relay.op, .dtype = dtype_of(call)};
  const auto end = [&](std::uint32_t role) {
    const auto members = static_cast<std::uint32_t>(relay.members.size());
    if (role >= cut.ranks) return members + parties[role - cut.ranks];
    return static_cast<std::uint32_t>(std::ranges::lower_bound(relay.members, role) -
                                      relay.members.begin());
  };
  for (const std::uint32_t index : relay.messages) {
    const std::int64_t bytes = whole_bytes_of(messages[index], cut, call);
    made.hops.push_back(
        {.from = end(messages[index].from), .to = end(messages[index].to), .bytes = bytes});
    made.bytes = std::max(made.bytes, bytes);
  }
  return made;
}

std::vector<Phase> relay_phases(const RelayCall& call, const GroupPlace& place) {
  const SwitchRoutes routes(place);
  LoadSum loads(place.cluster);
  Phase phase;
  bool across = false;
  for (const RelayHop& hop : call.hops) {
    loads.add(routes.between(hop.from, hop.to), static_cast<double>(hop.bytes));
    if (!routes.is_rank(hop.from)) continue;
    const DeviceId party = hop.to - routes.end_of(0);
    across = across || place.cluster.device(party).node < 0;
  }
  std::vector<std::uint32_t> members(place.gpus.size());
  std::iota(members.begin(), members.end(), 0U);
  if (!call.follows)
    phase.latency =
        across ? fabric_latency(place, members) : place.cluster.facts().latency.intra_step;
  if (Chain chain = loads.take(); !chain.loads.empty()) phase.chains.push_back(std::move(chain));
  return {std::move(phase)};
}

Chain chain_of(const GroupPlace& place, std::span<const DeviceId> parties,
               std::span<const Message> messages, std::span<const std::uint32_t> chosen) {
  LoadSum loads(place.cluster);
  for (const std::uint32_t index : chosen)
    loads.add(party_route(place, parties, messages[index].from, messages[index].to),
              messages[index].bytes);
  return loads.take();
}

}  // namespace trainyard
