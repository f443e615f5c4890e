// What a user may force, under the names NCCL knows.
//
//   Options options{.algorithms = parse_algorithms("^NVLS")};    // NCCL_ALGO=^NVLS
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "models/collectives/nccl/terms.hpp"
#include "sim/graph/workload.hpp"

namespace trainyard::nccl {

inline constexpr std::size_t kOperations = 7;  // of CollectiveOp

// Which are allowed, by operation. For protocols "by default" leaves LL128 to NCCL's own rule.
using AlgorithmMask = std::array<std::array<bool, kAlgorithms.size()>, kOperations>;
enum class Allowed : std::uint8_t { No, ByDefault, Yes };
using ProtocolMask = std::array<std::array<Allowed, kProtocols.size()>, kOperations>;

[[nodiscard]] AlgorithmMask all_algorithms();
[[nodiscard]] ProtocolMask default_protocols();

struct Options {
  std::string version = "2.30";
  AlgorithmMask algorithms = all_algorithms();       // NCCL_ALGO
  ProtocolMask protocols = default_protocols();      // NCCL_PROTO
  std::optional<std::uint32_t> channels_least = {};  // NCCL_MIN_NCHANNELS
  std::optional<std::uint32_t> channels_most = {};   // NCCL_MAX_NCHANNELS
  bool nvls = true;                                  // NCCL_NVLS_ENABLE
  bool collnet = false;                              // NCCL_COLLNET_ENABLE: switches that reduce
  std::optional<std::uint32_t> sm = {};  // compute capability x 10; else by the GPU's name
  std::optional<CpuVendor> cpu = {};     // else by the node type's name
};

// NCCL's own syntax: "Ring,Tree", "^NVLS", "Ring;allreduce:Tree,NVLS". An empty text allows all.
// Throws InputError for a name NCCL does not know.
[[nodiscard]] AlgorithmMask parse_algorithms(const std::string& text);
[[nodiscard]] ProtocolMask parse_protocols(const std::string& text);

}  // namespace trainyard::nccl
