// The constants of NCCL's tuning model in one release, read from data/tuning_<version>.json.
//
//    const TuningConstants constants = tuning_constants("2.27.3");   // those of 2.27
//    const LatencyTable& steps = constants.step_latency_us[std::size_t(Wire::NvLink)];
//    steps[std::size_t(Algorithm::Ring)][std::size_t(Protocol::LL)];   // 0.6
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/nccl/options.hpp"

namespace trainyard::nccl {

// Microseconds by algorithm and protocol.
using LatencyTable = std::array<std::array<double, kProtocols.size()>, kAlgorithms.size()>;
// GB/s by GPU generation and by number of nodes: one, two, three or more.
using RateTable = std::array<std::array<double, 3>, kGenerations>;

enum class Wire : std::uint8_t { NvLink, Pcie, Network };

// The rule by which a release computes the rates of NVLS and NVLSTree from the graph's rate per
// channel.
enum class NvlsRate : std::uint8_t {
  Graph,                    // the rate times 5/6 (NVLS) or 0.7 N/(2(N-1)) (NVLSTree): 2.18
  FiveSixths,               // min(intra, inter) times 5/6: 2.21
  FiveSixthsReduce,         // 5/6 for all_reduce only: 2.23
  FiveSixthsGatherLessOwn,  // also gathers: min((g-1)/g intra, 0.9 inter): 2.27
  Efficiency                // intra * measured efficiency * (channels-1)/channels: from 2.28
};

// The channels of send and recv to a peer on another node, before they are halved for many ranks
// (ncclTopoComputeP2pChannels()).
enum class PeerChannels : std::uint8_t {
  Two,    // or one for each NIC; halved while those of all ranks are over 4 times all channels
  ByRate  // one for each 14 GB/s; halved while those of an eighth of the ranks are over all: 2.29
};

struct TuningRules {
  double ring_ll_share = 0.5;  // LL reaches this fraction of the bus rate
  double ring_ll_share_gather_one_node = 0.5;
  double ring_ll128_share_one_rank_per_node = 0.92;
  bool inter_steps_per_node = false;  // all_reduce rings have 2N inter-node steps, not 2(N-1)
  NvlsRate nvls_rate = NvlsRate::Efficiency;
  bool nvls_gathers = true;                 // all_gather and reduce_scatter may use NVLS
  bool nvls_tree_levels_are_nodes = false;  // true: N-1 levels, false: floor(log2 N)
  bool nvls_tree_corrected = false;         // apply tree_correction on Blackwell with an x86 host
  bool pat = true;
  bool lone_rank_takes_tree_latency = true;  // network latency of Tree if g = 1
  std::uint32_t ll128_newest_sm = 999;       // LL128 is off by default on newer GPUs
  double bytes_per_channel_least = 32768.0;  // traffic per planned channel; 0: no such rule
  PeerChannels remote_peer = PeerChannels::ByRate;
};

struct TuningConstants {
  std::string version = {};
  LatencyTable base_latency_us = {};
  std::array<LatencyTable, 3> step_latency_us = {};  // by Wire
  RateTable ll_rate = {};
  RateTable ring_ll128_cap = {};  // caps are rates of one channel
  RateTable tree_ll128_cap = {};
  RateTable tree_cap = {};
  RateTable nvls_tree_cap = {};
  std::array<double, kGenerations> nvls_efficiency = {};
  std::array<std::vector<double>, kProtocols.size()> tree_correction = {};  // by log2(bytes / 64)
  TuningRules rules = {};
};

// The newest release with data up to `version` ("2.27.3" -> "2.27"). Throws InputError for a text
// that is not a version, for a version before the first release with data, and for one after the
// last.
[[nodiscard]] std::string data_version(const std::string& version);
// The constants of that release. Throws as data_version() does.
[[nodiscard]] TuningConstants tuning_constants(const std::string& version);
// Releases with data, oldest first.
[[nodiscard]] std::vector<std::string> tuning_versions();

}  // namespace trainyard::nccl
