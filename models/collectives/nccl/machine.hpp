// The machine model: how long the call that NCCL chose really takes.
//
// NCCL's tuning model (tuning.hpp) ranks algorithms; its times are up to 40 % from those that are
// measured. Here the chosen algorithm, protocol and channels are priced by what happens on the
// machine, with 17 constants for each GPU generation that were fitted to measurements:
//
//   T = launch + steps * step(protocol) + crossings * message(protocol) + bytes / rate
//
// Symbols and formulas by algorithm are in machine_time.cpp. All_gather of 512 bytes on 8 H100 by
// Ring/LL: 5.16 + 7 * 0.74 = 10.4 us, measured 10.4 (tests/models/collectives/nccl/
// machine_test.cpp has exact numbers on constants written down there).
//
//   const std::optional<MachineModel> machine = machine_model(90);       // H100
//   const Choice choice = choose(comm, {.op = CollectiveOp::AllReduce, .bytes = 1e9});
//   machine_time({.gpu = *machine, .messages = message_model()}, comm, choice, 1e9).time_us(1e9);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/collectives/nccl/tuning.hpp"

namespace trainyard::nccl {

// What differs from one release on (of NCCL, "2.29"), measured rather than documented.
struct MachineRelease {
  std::string from = "";
  bool exchange_ll_by_channel =
      true;  // LL for messages of 16 KiB per channel; false: 16 KiB in all
  double ll128_extra_us = 0.0;
};

// One GPU generation. Times in microseconds, rates in GB/s of one GPU in one direction.
struct MachineModel {
  double launch_us = 0.0;   // the kernel's start, and the end of its last step
  double ll_step_us = 0.0;  // one hop of a ring or tree
  double ll128_step_us = 0.0;
  double simple_step_us = 0.0;
  double ll_channel_rate = 0.0;  // user bytes that one channel of LL moves
  double ll_rate = 0.0;          // and all of them
  double ll128_rate = 0.0;
  double ring_efficiency = 0.0;  // of the rate NCCL counts on for Ring/Simple
  double own_rate = 0.0;         // a rank's own block: read and written once more, not sent
  double nvls_us = 0.0;          // filling and draining the pipeline through the switch
  double nvls_round_us = 0.0;    // of each round of chunks over all channels and heads
  double nvls_rate = 0.0;        // of the buffer
  double exchange_ll_us = 0.0;   // all_to_all and send_recv beyond the launch
  double exchange_us = 0.0;
  double exchange_ll_rate = 0.0;  // of what a GPU sends
  double exchange_rate = 0.0;
  double exchange_own_rate = 0.0;  // of the block that stays
  double link_rate = 0.0;          // NVLink of the GPUs that were measured; less scales the rates
  std::vector<MachineRelease> releases = {};
};

// Messages between nodes, whatever the GPU: what NCCL's proxy and the protocol add to the latency
// of the wire.
struct MessageModel {
  double ll_us = 0.0;
  double ll128_us = 0.0;
  double simple_us = 0.0;
  double exchange_us = 0.0;      // of each remote peer of all_to_all
  double pipeline = 0.0;         // of the square root that a tree's chunks cost
  double nvls_tree_share = 0.0;  // of the network's time that NVLSTree does not hide
  double nvls_pipeline = 0.0;    // as `pipeline`, where NVLSTree hides the network
};

// Between the nodes of a group.
struct Network {
  double latency_us = 1.15;  // NIC to NIC
  double rate = 0.0;         // usable, of all the group's NICs of a node, GB/s
  std::uint32_t nics = 0;
  double exchange_share = 1.0;  // of that rate in all_to_all
};

// One fitted number, for reading, writing and fitting alike.
template <class Model>
struct Parameter {
  std::string_view key;
  double Model::*value;
};
[[nodiscard]] std::span<const Parameter<MachineModel>> machine_parameters();
[[nodiscard]] std::span<const Parameter<MessageModel>> message_parameters();

// By compute capability (90: data/machine_hopper.json); nothing where none was measured.
[[nodiscard]] std::optional<MachineModel> machine_model(std::uint32_t compute_capability);
[[nodiscard]] MessageModel message_model();

// As the cluster has it, between the first and the last member of the group: the usable rate of the
// NICs of the node that has the fewest members, and the latency of the wires from NIC to NIC.
// Nothing to say for a group on one node.
[[nodiscard]] Network network_of(const GroupPlace& place, const Communicator& communicator);

struct Machine {
  MachineModel gpu = {};
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
