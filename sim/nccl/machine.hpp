// The machine model: how long the call that NCCL chose really takes.
//
// NCCL's tuning model (tuning.hpp) ranks algorithms; its times are up to 40 % from those that are
// measured. Here the chosen algorithm, protocol and channels are priced by what happens on the
// machine:
//
//   T = launch + steps * step(protocol) + crossings * message(protocol) + bytes / rate
//
// Five constants differ between GPU generations (MachineModel), the protocols' are the same for all
// (ProtocolModel), and so is what a message between nodes costs (MessageModel); all were fitted to
// measurements (data/machine_*.json). Symbols and formulas by algorithm are in machine_time.cpp.
// All_gather of 512 bytes on 8 H100 by Ring/LL: 4.9 + 7 * 0.77 = 10.3 us, measured 10.4
// (tests/sim/nccl/machine_test.cpp has exact numbers on constants of its own).
//
//   const std::optional<MachineModel> machine = machine_model(90);       // H100
//   const Choice choice = choose(comm, {.op = CollectiveOp::AllReduce, .bytes = 1e9});
//   machine_time({.gpu = *machine, .protocols = protocol_model(), .messages = message_model()},
//                comm, choice, 1e9).time_us(1e9);
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
  double launch_us = 0.0;       // the kernel's start, and the end of its last step
  double ll_step_us = 0.0;      // a hop by LL: a store over NVLink and the poll that sees it
  double simple_step_us = 0.0;  // a hop by Simple: fence, flag and poll
  double channel_rate = 0.0;    // user bytes that one channel (an SM) moves by LL
  double copy_rate = 0.0;       // all_to_all's own block, copied in place of sent
  double link_rate = 0.0;       // NVLink of the GPUs that were measured; less scales the rates
  std::vector<std::uint32_t> measured_on = {};  // their compute capabilities
};

// The costs of NCCL's protocols on any GPU. A share is of the GPU's NVLink.
struct ProtocolModel {
  double ll128_step_us = 0.0;
  double ll_share = 0.0;           // all channels of LL reach it
  double ll128_share = 0.0;        // LL128 reaches it
  double ring_share = 0.0;         // the part of the rate that NCCL counts on for Ring/Simple
  double own_share = 0.0;          // a ring's own block: read and written once more, not sent
  double nvls_us = 0.0;            // filling and draining the pipeline through the switch
  double nvls_round_steps = 0.0;   // Simple's steps, of each round of chunks over all channels
  double nvls_share = 0.0;         // the rate of the buffer
  double exchange_ll_us = 0.0;     // all_to_all and send_recv beyond the launch, by LL
  double exchange_steps = 0.0;     // Simple's steps instead
  double exchange_ll_share = 0.0;  // the rate of what a GPU sends
  double exchange_share = 0.0;
};

// The costs that NCCL's proxy and the protocol add to the latency of the wire, for each message
// between nodes of any GPU.
struct MessageModel {
  double ll_us = 0.0;
  double ll128_us = 0.0;
  double simple_us = 0.0;
  double exchange_us = 0.0;      // for each remote peer of all_to_all
  double pipeline = 0.0;         // times the square root that a tree's chunks cost
  double nvls_tree_share = 0.0;  // the part of the network's time that NVLSTree does not hide
  double nvls_pipeline = 0.0;    // as `pipeline`, where NVLSTree hides the network
  double exchange_share =
      1.0;  // the part of the NICs' rate in all_to_all, as measured on InfiniBand
};

// The network between the nodes of a group.
struct Network {
  double latency_us = 1.15;  // NIC to NIC
  double rate = 0.0;         // usable, of all the group's NICs of a node, GB/s
  std::uint32_t nics = 0;
  std::optional<double> exchange_share =
      {};  // the part of it in all_to_all; nothing: MessageModel's
  // A message of more than rendezvous_bytes that finds no posted buffer holds up its channel.
  double rendezvous_us = 0.0;
  double rendezvous_bytes = 0.0;
  // A message of all_to_all of at most inject_bytes, which the CPU fetches from the GPU's memory.
  double inject_us = 0.0;
  double inject_bytes = 0.0;
};

// One fitted number, for reading, writing and fitting alike.
template <class Model>
struct Parameter {
  std::string_view key;
  double Model::*value;
};
[[nodiscard]] std::span<const Parameter<MachineModel>> machine_parameters();
[[nodiscard]] std::span<const Parameter<ProtocolModel>> protocol_parameters();
[[nodiscard]] std::span<const Parameter<MessageModel>> message_parameters();

// By compute capability (90: data/machine_hopper.json); nothing where none was measured.
[[nodiscard]] std::optional<MachineModel> machine_model(std::uint32_t compute_capability);
[[nodiscard]] ProtocolModel protocol_model();
[[nodiscard]] MessageModel message_model();

// Returns the network between the first and the last member of the group: the usable rate of the
// NICs of the node that has the fewest members, and the latency of the wires from NIC to NIC.
// Nothing to say for a group on one node.
[[nodiscard]] Network network_of(const GroupPlace& place, const Communicator& communicator);

struct Machine {
  MachineModel gpu = {};
  ProtocolModel protocols = {};
  MessageModel messages = {};
  Network network = {};
};

// The time of a chosen call. The choice's own prediction is what stays for PAT and CollNet, which
// nobody has measured. REQUIRES: the choice is of this communicator and operation.
[[nodiscard]] Prediction machine_time(const Machine& machine, const Communicator& communicator,
                                      const Choice& choice, double bytes);

// all_to_all of all ranks (bytes: what each rank sends, its own block included) or one send_recv.
[[nodiscard]] Prediction exchange_time(const Machine& machine, const Communicator& communicator,
                                       CollectiveOp op, double bytes);

}  // namespace trainyard::nccl
