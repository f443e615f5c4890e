// Switches that add or copy and so take part in a collective: the routes to them, the messages of
// one pass of a part of the buffer through such a switch, and the flow (a relay) that the messages
// through switches form.
//
// Router::route joins GPUs. A switch that takes part in a collective is an endpoint: the NVSwitch
// within a node, or the switches of a reduction tree on the fabric. Endpoints are numbered as in
// sim/workload/workload.hpp: first the members of the group by group rank, then the devices of the
// cluster.
//
// A switch forwards data while it still arrives, so the messages into it and out of it are one
// relay. Example: eight GPUs send a part to their NVSwitch, which adds the parts and sends the sum
// to one of them. These are nine messages and one relay, which proceeds at the rate of its slowest
// link. Messages between two ranks are not part of a relay.
//
//    T = alpha + max over links of its bytes / rate      alpha: the step latency of its senders
//
//    const SwitchRoutes routes(placed);
//    Route up = routes.between(0, routes.end_of(leaf));
//
//    SwitchPass pass{.members = members, .hub = n, .head = 2, .begin = 2, .end = 3, .channel = 2};
//    pass.reduce(list, 0);    // steps 0 and 1: all to the hub, which adds; the sum to the head
//    pass.copy(list, 2);      // steps 2 and 3: the head to the hub; the hub to all
//    const std::vector<Message> messages = std::move(list).take();
//    for (const Relay& relay : relays_of(messages, relay_keys(messages, n), n)) use(relay.members);
#pragma once

#include <span>
#include <vector>

#include "sim/collectives/messages.hpp"

namespace trainyard {

// The NVSwitch that joins the members on one node, if one switch joins all of them.
[[nodiscard]] std::optional<DeviceId> nv_switch_of(const PlacedGroup& placed,
                                                   std::span<const std::uint32_t> group_ranks);

class SwitchRoutes {
 public:
  explicit SwitchRoutes(const PlacedGroup& placed) : place_(placed) {}

  [[nodiscard]] std::uint32_t end_of(DeviceId device) const {
    return static_cast<std::uint32_t>(place_.gpus.size()) + device;
  }
  [[nodiscard]] bool is_rank(std::uint32_t end) const { return end < place_.gpus.size(); }

  // The route between two endpoints. REQUIRES: two members; or a member and the NVSwitch of its
  // node or a switch to which its NIC is cabled; or two switches of the fabric that are cabled to
  // each other.
  [[nodiscard]] Route between(std::uint32_t from, std::uint32_t to) const;

  // The fabric switches to which the NIC of a member is cabled, ascending. Empty if the group does
  // not leave its node.
  [[nodiscard]] std::vector<DeviceId> entries(std::uint32_t group_rank) const;
  // The NIC through which a member reaches other nodes.
  [[nodiscard]] std::optional<DeviceId> nic_of(std::uint32_t group_rank) const;

 private:
  [[nodiscard]] std::optional<std::uint32_t> member_on_other_node(std::uint32_t group_rank) const;
  [[nodiscard]] Route to_nic(std::uint32_t group_rank) const;
  [[nodiscard]] Route from_nic(std::uint32_t group_rank) const;
  [[nodiscard]] Route cables(DeviceId from, DeviceId to) const;

  const PlacedGroup& place_;
};

// Like hop_route of loads.hpp, for a message that may start or end at a switch. `switches` are the
// switches of the algorithm; their group ranks start at the number of ranks.
[[nodiscard]] Route hop_between(const PlacedGroup& placed, std::span<const DeviceId> switches,
                                std::uint32_t from, std::uint32_t to);

// One pass of a part of the buffer through a switch that adds or copies, as messages.
struct SwitchPass {
  std::span<const std::uint32_t> members;
  std::uint32_t hub = 0;    // group rank of the switch
  std::uint32_t head = 0;   // member that receives the sum, or sends the data to copy
  std::uint32_t begin = 0;  // pieces [begin, end)
  std::uint32_t end = 0;
  std::uint32_t channel = 0;

  void reduce(MessageList& list, std::uint32_t step) const {
    for (const std::uint32_t member : members) send(list, member, hub, step, true);
    send(list, hub, head, step + 1, false);
  }
  void copy(MessageList& list, std::uint32_t step) const {
    send(list, head, hub, step, false);
    for (const std::uint32_t member : members) send(list, hub, member, step + 1, false);
  }

 private:
  void send(MessageList& list, std::uint32_t from, std::uint32_t to, std::uint32_t step,
            bool reduce) const {
    list.send({.from = from,
               .to = to,
               .step = step,
               .channel = channel,
               .reduce = reduce,
               .piece_begin = begin,
               .piece_end = end});
  }
};

// Messages that meet in switches and move as one flow, ascending.
struct Relay {
  // The last of the messages that a rank sends: all messages that its ranks wait for come before.
  std::uint32_t key = 0;
  std::vector<std::uint32_t> messages;
  std::vector<std::uint32_t> members;  // ranks that send or receive, ascending
  // Reduce if one rank receives, broadcast if one rank sends.
  CollectiveOp op = CollectiveOp::AllReduce;
};

// By message, the key of its relay; kNone for a message between two ranks. REQUIRES: in a relay,
// messages from switches to ranks follow those from ranks.
[[nodiscard]] std::vector<std::uint32_t> relay_keys(std::span<const Message> messages,
                                                    std::uint32_t ranks);
[[nodiscard]] std::vector<Relay> relays_of(std::span<const Message> messages,
                                           std::span<const std::uint32_t> keys,
                                           std::uint32_t ranks);

// The relay as a call of its members. Sizes are whole bytes.
[[nodiscard]] RelayCall relay_call(std::span<const Message> messages, const Relay& relay,
                                   std::span<const DeviceId> switches, const Cut& cut,
                                   const Call& call);

// One phase: the step latency of the senders (none if the call follows another one of the same
// relay), and one flow over all links.
[[nodiscard]] std::vector<Phase> relay_phases(const RelayCall& call, const PlacedGroup& placed);

}  // namespace trainyard
