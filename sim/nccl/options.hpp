// What a user may force, under the names NCCL knows.
//
//   Options options{.algorithms = parse_algorithms("^NVLS")};    // NCCL_ALGO=^NVLS
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "sim/nccl/terms.hpp"
#include "sim/workload/workload.hpp"

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
  // GPUs that are not NVIDIA's: true takes a registered algorithm instead, false refuses them.
  bool stands_in = false;
  bool machine = true;  // times by the machine model; false: as NCCL's tuning model expects them
  std::optional<std::uint32_t> sm = {};  // compute capability x 10; else by the GPU's name
  std::optional<CpuVendor> cpu = {};     // else by the node type's name
};

inline constexpr std::uint32_t kChannelsMost = 64;  // MAXCHANNELS

// The same as a scenario or a command line has it, in the words of NCCL's environment.
struct Settings {
  std::string version = Options{}.version;
  std::string algo = {};                          // NCCL_ALGO; empty: all
  std::string proto = {};                         // NCCL_PROTO; empty: NCCL's default
  std::optional<std::int64_t> min_channels = {};  // NCCL_MIN_NCHANNELS, 1 to kChannelsMost
  std::optional<std::int64_t> max_channels = {};  // NCCL_MAX_NCHANNELS

  bool operator==(const Settings&) const = default;
};

// All problems in one InputError; each has the setting as its pointer ("/version").
[[nodiscard]] Options options_of(const Settings& settings);

// NCCL's own syntax: "Ring,Tree", "^NVLS", "Ring;allreduce:Tree,NVLS". An empty text allows all.
// Throws InputError for a name NCCL does not know.
[[nodiscard]] AlgorithmMask parse_algorithms(const std::string& text);
[[nodiscard]] ProtocolMask parse_protocols(const std::string& text);

}  // namespace trainyard::nccl
