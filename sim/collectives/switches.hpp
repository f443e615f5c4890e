// Switches that add or copy take part in a collective: the routes to them, one pass of a part of
// the buffer through one as messages, and the flow (a relay) that messages through them form.
//
// Router::route joins GPUs. A switch that takes part in a collective is an end of its own: in a
// node the NVSwitch, on the fabric the switches of a reduction tree. Ends are numbered as in
// sim/workload/workload.hpp: the members of the group by group rank, then the devices of the
// cluster.
//
// A switch passes on what it receives while it still arrives, so messages into it and out of it are
// one relay. Eight GPUs send a part to their NVSwitch, which adds the parts and sends the sum to
// one of them: nine messages, one relay that moves at the pace of its slowest wire. Messages
// between ranks alone stay as they are.
//
//   T = alpha + max over links of its bytes / rate      alpha: the step latency of its senders
//
//   const SwitchRoutes routes(place);
//   Route up = routes.between(0, routes.end_of(leaf));
//   SwitchPass pass{.members = ranks, .hub = n, .head = 2, .begin = 2, .end = 3, .channel = 2};
//   pass.reduce(list, 0);    // all to the hub, which adds; the sum to the head: steps 0 and 1
//   pass.copy(list, 2);      // the head to the hub; the hub to all: steps 2 and 3
//   for (const Relay& relay : relays_of(messages, relay_keys(messages, ranks), ranks)) ...
#pragma once

#include <span>
#include <vector>

#include "sim/collectives/messages.hpp"

namespace trainyard {

// The switch that joins the members on one node by NVLink, if one switch does.
[[nodiscard]] std::optional<DeviceId> nv_switch_of(const GroupPlace& place,
                                                   std::span<const std::uint32_t> group_ranks);

class SwitchRoutes {
 public:
  explicit SwitchRoutes(const GroupPlace& place) : place_(place) {}

  [[nodiscard]] std::uint32_t end_of(DeviceId device) const {
    return static_cast<std::uint32_t>(place_.gpus.size()) + device;
  }
  [[nodiscard]] bool is_rank(std::uint32_t end) const { return end < place_.gpus.size(); }

  // REQUIRES: two members; or a member and the NVSwitch of its node, or a switch its NIC is cabled
  // to; or two switches of the fabric that are cabled to each other.
  [[nodiscard]] Route between(std::uint32_t from, std::uint32_t to) const;

  // The switches of the fabric that the NIC of a member is cabled to, ascending. Empty where the
  // group does not leave its node.
  [[nodiscard]] std::vector<DeviceId> entries(std::uint32_t group_rank) const;
  // The NIC by which a member reaches other nodes.
  [[nodiscard]] std::optional<DeviceId> nic_of(std::uint32_t group_rank) const;

 private:
  [[nodiscard]] std::optional<std::uint32_t> abroad(std::uint32_t group_rank) const;
  [[nodiscard]] Route to_nic(std::uint32_t group_rank) const;
  [[nodiscard]] Route from_nic(std::uint32_t group_rank) const;
  [[nodiscard]] Route cables(DeviceId from, DeviceId to) const;

  const GroupPlace& place_;
};

// Returns what hop_route of loads.hpp does, for a message that may lead to or from a switch.
// `switches` are the switches of the algorithm, with the group ranks from the number of ranks on.
[[nodiscard]] Route hop_between(const GroupPlace& place, std::span<const DeviceId> switches,
                                std::uint32_t from, std::uint32_t to);

// One pass of a part of the buffer through a switch that adds or copies, as messages.
struct SwitchPass {
  std::span<const std::uint32_t> members;
  std::uint32_t hub = 0;  // group rank of the switch
  std::uint32_t head = 0;
  std::uint32_t begin = 0;  // pieces
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
                                   std::span<const DeviceId> switches, const Cut& cut,
                                   const Call& call);

[[nodiscard]] std::vector<Phase> relay_phases(const RelayCall& call, const GroupPlace& place);

}  // namespace trainyard
