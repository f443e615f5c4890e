// The constants that a release of NCCL has built into its tuning model, read from
// data/tuning_<version>.json.
//
//   const TuningConstants& nccl = tuning_constants("2.27.3");   // the newest not after it: 2.27
//   nccl.step_latency_us[Wire::NvLink][Algorithm::Ring][Protocol::LL];   // 0.6
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/nccl/options.hpp"

namespace trainyard::nccl {

// Microseconds by algorithm and protocol.
using LatencyTable = std::array<std::array<double, kProtocols.size()>, kAlgorithms.size()>;
// GB/s by GPU generation, and by one node, two nodes, three or more.
using RateTable = std::array<std::array<double, 3>, kGenerations>;

enum class Wire : std::uint8_t { NvLink, Pcie, Network };

// How a release rates NVLS and NVLSTree, from the graph's rate of a channel.
enum class NvlsRate : std::uint8_t {
  Graph,                    // its rate, times 5/6 (NVLS) or 0.7 N/(2(N-1)) (NVLSTree): 2.18
  FiveSixths,               // the lesser of intra and inter, times 5/6: 2.21
  FiveSixthsReduce,         // 5/6 for all_reduce only: 2.23
  FiveSixthsGatherLessOwn,  // and all_gather at (g-1)/g of intra or 0.9 of inter: 2.27
  Efficiency                // intra by a measured efficiency and (channels-1)/channels: from 2.28
};

struct TuningRules {
  double ring_ll_share = 0.5;  // LL reaches this share of the bus rate
  double ring_ll_share_gather_one_node = 0.5;
  double ring_ll128_share_one_rank_per_node = 0.92;
  bool inter_steps_per_node = false;  // all_reduce rings count 2N inter-node steps, not 2(N-1)
  NvlsRate nvls_rate = NvlsRate::Efficiency;
  bool nvls_gathers = true;                 // all_gather and reduce_scatter may use NVLS
  bool nvls_tree_levels_are_nodes = false;  // N-1 levels, not floor(log2 N)
  bool nvls_tree_corrected = false;         // by tree_correction, on Blackwell with an x86 host
  bool pat = true;
  bool lone_rank_takes_tree_latency = true;  // network latency of Tree where g = 1
  std::uint32_t ll128_newest_sm = 999;       // LL128 is off by default on newer GPUs
  double bytes_per_channel_least = 32768.0;  // traffic planned per channel; 0: no such rule
};

struct TuningConstants {
  std::string version = {};
  LatencyTable base_latency_us = {};
  std::array<LatencyTable, 3> step_latency_us = {};  // by Wire
  RateTable ll_rate = {};
  RateTable ring_ll128_cap = {};  // for a channel
  RateTable tree_ll128_cap = {};
  RateTable tree_cap = {};
  RateTable nvls_tree_cap = {};
  std::array<double, kGenerations> nvls_efficiency = {};
  std::array<std::vector<double>, kProtocols.size()> tree_correction = {};  // by log2(bytes / 64)
  TuningRules rules = {};
};

// The newest release with data that is not after `version` ("2.27.3" -> "2.27"). Throws InputError
// for text that is no version, for one before the first with data and for one after the last.
[[nodiscard]] std::string data_version(const std::string& version);
// The constants of that release. Throws like data_version().
[[nodiscard]] TuningConstants tuning_constants(const std::string& version);
// Releases with data, oldest first.
[[nodiscard]] std::vector<std::string> tuning_versions();

}  // namespace trainyard::nccl
