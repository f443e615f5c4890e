// How the experts of a model are run: who gets which tokens, and how the tokens travel.
//
//   ExpertSettings experts{.routing = RoutingKind::Zipf, .zipf_exponent = 0.8};
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/workload/kernel.hpp"

namespace trainyard {

// How the tokens of a microbatch fall on the experts. Balanced: alike. Zipf: expert of rank i gets
// a share proportional to i^-s, the ranks drawn anew for every layer. Dirichlet: shares drawn for
// every layer and microbatch from a symmetric Dirichlet distribution. Recorded: shares read from a
// file of counts.
enum class RoutingKind : std::uint8_t { Balanced, Zipf, Dirichlet, Recorded };

// How rows reach their experts (Megatron-LM core/transformer/moe/token_dispatcher.py). AllGather:
// every rank gathers all tokens of its expert group and picks. AllToAll: each row goes to the rank
// of its expert. NodeLimited: a token crosses to each node once and is forwarded inside
// (DeepSeek-V3, arXiv 2412.19437 section 3.2.2; DeepEP).
enum class Dispatcher : std::uint8_t { AllToAll, AllGather, NodeLimited };

// How the products of a rank's experts are issued. PerExpert: one after another, as Transformer
// Engine's GroupedLinear has cuBLAS do it. OneLaunch: a kernel for all of them (CUTLASS,
// torch._grouped_mm, DeepGEMM). Fused: that kernel also adds the biases, cuts off, activates and
// quantises what the next product reads (cuDNN's grouped kernels behind Transformer Engine's op
// fuser, 2026); priced as the single products, at what the profile says of those.
enum class ExpertProducts : std::uint8_t { PerExpert, OneLaunch, Fused };

// The operation by which ranks learn how many rows of each expert come to them. The host reads the
// counts, to size what follows.
inline constexpr std::string_view kExpertCountsOperation = "expert_counts_all_gather";

struct ExpertSettings {
  RoutingKind routing = RoutingKind::Balanced;
  double zipf_exponent = 1.0;    // s; 0 is balanced
  double dirichlet_alpha = 1.0;  // smaller is more uneven
  std::string counts = {};       // a file (read_expert_counts), for Recorded
  // Replicas of the experts draw their own shares; otherwise all see the same ones.
  bool independent_replicas = false;
  // Rows an expert takes at most of one rank's microbatch, over the balanced number; 0: all there
  // are (dropless).
  double capacity_factor = 0.0;
  bool pad_to_capacity = false;  // every expert gets that many, filled with zeros
  Dispatcher dispatcher = Dispatcher::AllToAll;
  DataType dispatch_precision = DataType::Bf16;  // fp8: one byte, and 4 of scale for 128 numbers
  ExpertProducts products = ExpertProducts::PerExpert;
  bool overlap_shared = false;  // the shared experts compute while the rows travel
  // Every rank runs one forward further ahead, and each backward as one block with the forward
  // before it, so that the rows of one travel under the computation of the other (Megatron-LM's
  // overlap_moe_expert_parallel_comm; DualPipe does so by itself).
  bool overlap_exchanges = false;

  bool operator==(const ExpertSettings&) const = default;
};

}  // namespace trainyard
