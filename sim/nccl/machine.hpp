// The machine model: the real time of the call that NCCL has chosen.
//
// NCCL's tuning model (tuning.hpp) ranks algorithms; its times differ from measured ones by up to
// 40 %. The machine model computes the time of the chosen algorithm, protocol and channels from the
// costs on the machine:
//
//    T = launch + steps * step(protocol) + crossings * message(protocol) + bytes / rate
//
// Five constants differ between GPU generations (MachineModel). The constants of the protocols are
// the same for all of them (ProtocolModel), and so are the costs of a message between nodes
// (MessageModel). All were fitted to measurements (data/machine_*.json). The symbols and the
// formulas of each algorithm are in machine_time.cpp. All_gather of 512 bytes on 8 H100 by Ring/LL:
// 4.9 + 7 * 0.77 = 10.3 us, measured 10.4 (tests/sim/nccl/machine_test.cpp has exact numbers for
// its own constants).
//
//    const std::optional<MachineModel> machine = machine_model(90);       // H100
//    const Choice choice = choose(comm, {.op = CollectiveOp::AllReduce, .bytes = 1e9});
//    machine_time({.gpu = *machine, .protocols = protocol_model(), .messages = message_model()},
//                 comm, choice, 1e9).time_us(1e9);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/nccl/tuning.hpp"

namespace trainyard::nccl {

// One GPU generation. Times in microseconds, rates in GB/s of one GPU in one direction.
struct MachineModel {
  double launch_us = 0.0;       // start of the kernel, and end of its last step
  double ll_step_us = 0.0;      // one hop with LL: a store over NVLink until a poll sees it
  double simple_step_us = 0.0;  // one hop with Simple: fence, flag and poll
  double channel_rate = 0.0;    // user bytes that one channel (an SM) moves with LL
  double copy_rate = 0.0;       // copy of all_to_all's own block, which is not sent
  double link_rate = 0.0;       // NVLink of the measured GPUs; a lower one scales the rates
  std::vector<std::uint32_t> measured_on = {};  // compute capabilities of the measured GPUs
};

// The costs of NCCL's protocols on any GPU. A share is a fraction of the GPU's NVLink rate.
struct ProtocolModel {
  double ll128_step_us = 0.0;
  double ll_share = 0.0;           // rate of all channels with LL
  double ll128_share = 0.0;        // rate with LL128
  double ring_share = 0.0;         // fraction of the rate that NCCL assumes for Ring/Simple
  double own_share = 0.0;          // a ring's own block: read and written once more, not sent
  double nvls_us = 0.0;            // filling and draining the pipeline through the switch
  double nvls_round_steps = 0.0;   // Simple steps for each round of chunks over all channels
  double nvls_share = 0.0;         // rate of the buffer
  double exchange_ll_us = 0.0;     // all_to_all and send_recv with LL, in addition to the launch
  double exchange_steps = 0.0;     // the same with Simple, in Simple steps
  double exchange_ll_share = 0.0;  // rate at which a GPU sends with LL
  double exchange_share = 0.0;     // the same with Simple
};

// The costs of NCCL's proxy and of the protocol for each message between nodes, in addition to the
// latency of the wire. They are the same for every GPU.
struct MessageModel {
  double ll_us = 0.0;
  double ll128_us = 0.0;
  double simple_us = 0.0;
  double exchange_us = 0.0;        // for each remote peer of all_to_all
  double ll_rate = 1e3;            // user bytes that LL moves through a NIC, GB/s
  double turn_us = 0.0;            // turn of the proxy, which posts a message of each channel
  double late_share = 0.0;         // of a node's small messages, that are early for their receiver
  double tree_fill = 1.0;          // fraction of a chunk's time that delays each hop of a tree
  double nvls_tree_share = 0.0;    // fraction by which NVLSTree slows NVLS on the node
  double host_bridge_share = 1.0;  // of PCIe's rate, from a port of the CPU to another port
  double exchange_share = 1.0;     // fraction of the NICs' rate in all_to_all, from InfiniBand
};

// The network between the nodes of a group.
struct Network {
  double latency_us = 1.15;  // from NIC to NIC
  double rate = 0.0;         // usable rate of all NICs of the group on a node, GB/s
  std::uint32_t nics = 0;
  // Where nodes have unequal numbers of members: the members of the fullest and of the emptiest
  // node, and the blocks of all_to_all that cross the busiest NICs, for each of these NICs.
  // `most_members` 0: all nodes have equally many.
  std::uint32_t most_members = 0;
  std::uint32_t least_members = 0;
  double blocks_of_nic = 0.0;
  // Fraction of the rate in all_to_all; if empty, that of MessageModel.
  std::optional<double> exchange_share = {};
  // The proxy of a NIC takes this time for each message of more than rendezvous_bytes; if empty,
  // that of MessageModel.
  std::optional<double> rendezvous_us = {};
  double rendezvous_bytes = 0.0;
  // A message of all_to_all of at most inject_bytes takes inject_us longer, because the CPU reads
  // it from the GPU's memory.
  double inject_us = 0.0;
  double inject_bytes = 0.0;
};

// One fitted number. Reading, writing and fitting use the same table of parameters.
template <class Model>
struct Parameter {
  std::string_view key;
  double Model::*value;
};
[[nodiscard]] std::span<const Parameter<MachineModel>> machine_parameters();
[[nodiscard]] std::span<const Parameter<ProtocolModel>> protocol_parameters();
[[nodiscard]] std::span<const Parameter<MessageModel>> message_parameters();

// The model of a compute capability (90: data/machine_hopper.json); nothing if no GPU of its
// generation was measured.
[[nodiscard]] std::optional<MachineModel> machine_model(std::uint32_t compute_capability);
[[nodiscard]] ProtocolModel protocol_model();
[[nodiscard]] MessageModel message_model();

// The network of the group: the usable rate of the NICs of the communicator's node, and the largest
// latency of the wires from NIC to NIC between the first member and the last one on another node,
// or one of a few between them. On a torus the last node may be next to the first. A default value
// for a group on one node.
[[nodiscard]] Network network_of(const PlacedGroup& placed, const Communicator& communicator);

struct Machine {
  MachineModel gpu = {};
  ProtocolModel protocols = {};
  MessageModel messages = {};
  Network network = {};
};

// The time of a chosen call. For PAT and CollNet, which were not measured, it is the prediction in
// the choice. REQUIRES: the choice is for this communicator and operation.
[[nodiscard]] Prediction machine_time(const Machine& machine, const Communicator& communicator,
                                      const Choice& choice, double bytes);

// The time of an all_to_all over all ranks (`bytes`: sent by each rank, including its own block) or
// of one send_recv.
[[nodiscard]] Prediction exchange_time(const Machine& machine, const Communicator& communicator,
                                       CollectiveOp op, double bytes);

}  // namespace trainyard::nccl
