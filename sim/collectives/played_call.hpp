// What one collective call becomes when it is played message by message: the messages, and which of
// them each role sends or receives.
//
//   CallPlayer player(cluster, algorithm_of, to.calls);
//   const PlayedCall played = player.play(gpus, call);
//   for (std::uint32_t index : played.of_role[role]) add(played.messages[index]);
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "sim/collectives/blocks.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/collectives/relay.hpp"

namespace trainyard {

// Messages that meet in switches move as one and are listed once, by the key of the relay.
struct PlayedCall {
  std::vector<Message> messages = {};
  std::vector<std::uint32_t> calls = {};  // by message, index into the new calls
  std::vector<std::vector<std::uint32_t>> of_role = {};
  std::unordered_map<std::uint32_t, Relay> relays = {};  // by key
  // Set where every member does as one of the first does, turned (TurnedMessages): only the
  // messages of these are here, and calls with the same number are played alike. kNone: members
  // differ.
  std::uint32_t likeness = kNone;

  [[nodiscard]] bool turns() const { return likeness != kNone; }
  // Whose messages are those of the role.
  [[nodiscard]] std::uint32_t like(std::uint32_t role) const {
    return role % static_cast<std::uint32_t>(of_role.size());
  }
};

// Who sends to whom on which channel of a group.
struct Connection {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t channel = 0;
  bool operator==(const Connection&) const = default;
};

// The same for the member `by` roles on, in a group of so many members.
[[nodiscard]] inline Connection turned(const Connection& at, std::uint32_t by,
                                       std::size_t members) {
  const auto size = static_cast<std::uint32_t>(members);
  return {.from = (at.from + by) % size, .to = (at.to + by) % size, .channel = at.channel};
}

class CallPlayer {
 public:
  // Appends what messages are to `calls`, which must outlive it.
  CallPlayer(const Cluster& cluster, const AlgorithmOf& algorithm_of, std::vector<Call>& calls)
      : cluster_(cluster), algorithm_of_(algorithm_of), calls_(calls) {}

  // Throws RunError like CollectiveTransport.
  [[nodiscard]] PlayedCall play(std::span<const std::uint32_t> gpus, const Call& call);

 private:
  [[nodiscard]] PlayedCall play_turned(const Call& named, const Call& call, const Cut& cut,
                                       TurnedMessages turned);
  void list_messages(PlayedCall& played, const Call& call, const Cut& cut,
                     const std::vector<bool>& goes_on);
  // Replaces the messages that meet in switches: one call and one entry for each of their members.
  void list_relays(PlayedCall& played, const Call& call, const Cut& cut,
                   std::span<const DeviceId> parties, const std::vector<bool>& goes_on);
  [[nodiscard]] std::uint32_t step_call(const Call& call, std::int64_t bytes, bool goes_on);
  [[nodiscard]] std::uint32_t known_call(const Call& call);

  const Cluster& cluster_;
  const AlgorithmOf& algorithm_of_;
  std::vector<Call>& calls_;
  std::map<Call, std::uint32_t> known_;
  // By call, size of the group and turn.
  std::map<std::tuple<Call, std::uint32_t, std::uint32_t>, std::uint32_t> likenesses_;
};

}  // namespace trainyard
