#include "sim/collectives/played_call.hpp"

#include <array>
#include <set>

#include "sim/collectives/selection.hpp"

namespace trainyard {

// Members can do as others only where all pieces weigh the same in whole bytes.
PlayedCall CallPlayer::play(std::span<const std::uint32_t> gpus, const Call& call) {
  const GroupPlace place{.cluster = cluster_, .gpus = gpus, .matrix = matrix_of(call)};
  const Call named = algorithm_of_ ? with_algorithm(call, algorithm_of_(call, gpus)) : call;
  const CollectiveAlgorithm& algorithm = select_algorithm(named, place);
  const Bytes bytes{static_cast<double>(bytes_of(call))};
  const Cut cut{.op = op_of(call),
                .ranks = static_cast<std::uint32_t>(gpus.size()),
                .pieces = algorithm.pieces(place)};
  TurnedMessages turned;
  if (bytes_of(call) % cut.pieces == 0) turned = algorithm.turned_messages(place, bytes);
  if (turned.turn() > 0) return play_turned(named, call, cut, std::move(turned));
  PlayedCall played;
  played.messages = algorithm.messages(place, bytes);
  played.of_role.resize(cut.ranks);
  const std::vector<bool> goes_on = follows_on(algorithm, played.messages);
  const std::vector<DeviceId> parties = algorithm.parties(place);
  if (parties.empty()) {
    list_messages(played, call, cut, goes_on);
  } else {
    list_relays(played, call, cut, parties, goes_on);
  }
  return played;
}

// `named`: the call with the algorithm that plays it.
PlayedCall CallPlayer::play_turned(const Call& named, const Call& call, const Cut& cut,
                                   TurnedMessages turned) {
  PlayedCall played;
  played.likeness = likenesses_
                        .try_emplace({named, cut.ranks, turned.turn()},
                                     static_cast<std::uint32_t>(likenesses_.size()))
                        .first->second;
  played.of_role.resize(turned.turn());
  for (std::uint32_t role = 0; role < turned.turn(); ++role) {
    const auto first = static_cast<std::uint32_t>(played.messages.size());
    for (Message& message : turned.of_role[role]) {
      for (std::uint32_t& before : message.after) before += first;
      played.of_role[role].push_back(static_cast<std::uint32_t>(played.messages.size()));
      played.calls.push_back(step_call(call, whole_bytes_of(message, cut, call), false));
      played.messages.push_back(std::move(message));
    }
  }
  return played;
}

void CallPlayer::list_messages(PlayedCall& played, const Call& call, const Cut& cut,
                               const std::vector<bool>& goes_on) {
  // Most messages are of few sizes.
  std::unordered_map<std::int64_t, std::array<std::uint32_t, 2>> call_of_size;
  played.calls.reserve(played.messages.size());
  for (std::uint32_t index = 0; index < played.messages.size(); ++index) {
    const Message& message = played.messages[index];
    const std::int64_t size = whole_bytes_of(message, cut, call);
    std::uint32_t& sized =
        call_of_size.try_emplace(size, std::array{kNone, kNone}).first->second[goes_on[index]];
    if (sized == kNone) sized = step_call(call, size, goes_on[index]);
    played.calls.push_back(sized);
    played.of_role[message.from].push_back(index);
    played.of_role[message.to].push_back(index);
  }
}

void CallPlayer::list_relays(PlayedCall& played, const Call& call, const Cut& cut,
                             std::span<const DeviceId> parties, const std::vector<bool>& goes_on) {
  const std::vector<std::uint32_t> keys = relay_keys(played.messages, cut.ranks);
  played.calls.resize(played.messages.size(), kNone);
  for (Relay& relay : relays_of(played.messages, keys, cut.ranks))
    played.relays.emplace(relay.key, std::move(relay));
  std::set<std::pair<std::uint32_t, std::vector<std::uint32_t>>> seen;
  for (std::uint32_t index = 0; index < played.messages.size(); ++index) {
    const Message& message = played.messages[index];
    if (keys[index] == kNone) {
      played.calls[index] = step_call(call, whole_bytes_of(message, cut, call), goes_on[index]);
      played.of_role[message.from].push_back(index);
      played.of_role[message.to].push_back(index);
    }
    if (keys[index] != index) continue;
    const Relay& relay = played.relays.at(index);
    RelayCall one = relay_call(played.messages, relay, parties, cut, call);
    one.follows = !seen.emplace(message.channel, relay.members).second;
    played.calls[index] = known_call(one);
    for (const std::uint32_t role : relay.members) played.of_role[role].push_back(index);
  }
}

std::uint32_t CallPlayer::step_call(const Call& call, std::int64_t bytes, bool goes_on) {
  return known_call(TransferCall{.bytes = bytes,
                                 .dtype = dtype_of(call),
                                 .kind = goes_on ? MessageKind::FollowingStep : MessageKind::Step});
}

std::uint32_t CallPlayer::known_call(const Call& call) {
  const auto [entry, fresh] = known_.try_emplace(call, static_cast<std::uint32_t>(calls_.size()));
  if (fresh) calls_.push_back(call);
  return entry->second;
}

}  // namespace trainyard
