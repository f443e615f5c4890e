// A switch passes on what it receives while it still arrives: messages into it and out of it are
// one flow, a relay.
//
// Eight GPUs send a part to their NVSwitch, which adds the parts and sends the sum to one of them:
// nine messages, one relay that moves at the pace of its slowest wire. Messages between ranks alone
// stay as they are.
//
//   T = alpha + max over links of its bytes / rate      alpha: the step latency of its senders
//
//   for (const Relay& relay : relays_of(messages, relay_keys(messages, ranks), ranks)) ...
#pragma once

#include <span>
#include <vector>

#include "sim/collectives/blocks.hpp"
#include "sim/collectives/collective.hpp"

namespace trainyard {

// Messages that meet in switches, ascending.
struct Relay {
  std::uint32_t key =
      0;  // the last of them that a rank sends: what its ranks wait for comes before
  std::vector<std::uint32_t> messages;
  std::vector<std::uint32_t> members;  // ranks that send or receive, ascending
  CollectiveOp op =
      CollectiveOp::AllReduce;  // reduce where one receives, broadcast where one sends
};

// By message, the key of its relay; kNone for one between two ranks. REQUIRES: in a relay, messages
// out of switches to ranks stand after those of ranks.
[[nodiscard]] std::vector<std::uint32_t> relay_keys(std::span<const Message> messages,
                                                    std::uint32_t ranks);
[[nodiscard]] std::vector<Relay> relays_of(std::span<const Message> messages,
                                           std::span<const std::uint32_t> keys,
                                           std::uint32_t ranks);

// The relay as a call of its members, with sizes in whole bytes.
[[nodiscard]] RelayCall relay_call(std::span<const Message> messages, const Relay& relay,
                                   std::span<const DeviceId> parties, const Cut& cut,
                                   const Call& call);

[[nodiscard]] std::vector<Phase> relay_phases(const RelayCall& call, const GroupPlace& place);

// What some messages put on links, as one flow. `parties` as CollectiveAlgorithm says.
[[nodiscard]] Chain chain_of(const GroupPlace& place, std::span<const DeviceId> parties,
                             std::span<const Message> messages,
                             std::span<const std::uint32_t> chosen);

}  // namespace trainyard
