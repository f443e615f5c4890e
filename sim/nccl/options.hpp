// NCCL's terms (algorithms, protocols, types of paths), and the options by which a user restricts
// its choice.
//
// A protocol marks that a chunk has arrived. LL adds a flag to every 4 bytes of data, so half of
// the bytes on the wire are data. LL128 adds one flag per 128 bytes, of which 120 are data. Simple
// sends no flags but waits for memory fences.
//
//    to_string(Algorithm::NvlsTree);       // "NVLSTree", as in NCCL_ALGO
//    wire_efficiency(Protocol::LL128);     // 0.9375
//    Options options{.algorithms = parse_algorithms("^NVLS")};    // NCCL_ALGO=^NVLS
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/workload/workload.hpp"

namespace trainyard::nccl {

enum class Algorithm : std::uint8_t {
  Tree,
  Ring,
  CollNetDirect,
  CollNetChain,
  Nvls,
  NvlsTree,
  Pat
};
inline constexpr std::array kAlgorithms{
    Algorithm::Tree,         Algorithm::Ring, Algorithm::CollNetDirect,
    Algorithm::CollNetChain, Algorithm::Nvls, Algorithm::NvlsTree,
    Algorithm::Pat};
[[nodiscard]] std::string_view to_string(Algorithm algorithm);

enum class Protocol : std::uint8_t { LL, LL128, Simple };
inline constexpr std::array kProtocols{Protocol::LL, Protocol::LL128, Protocol::Simple};
[[nodiscard]] std::string_view to_string(Protocol protocol);
// The fraction of the bytes on the wire that is user data (NVIDIA/nccl src/include/device.h).
[[nodiscard]] double wire_efficiency(Protocol protocol);

// GPU generation by compute capability: below 8.0, below 9.0, below 10.0, the rest. Tables have one
// row for each.
enum class Generation : std::uint8_t { Volta, Ampere, Hopper, Blackwell };
inline constexpr std::size_t kGenerations = 4;
[[nodiscard]] Generation generation_of(std::uint32_t compute_capability);

// Type of the path between two devices, nearest first. Comparisons use this order.
enum class PathType : std::uint8_t {
  Same,           // LOC
  NvLink,         // NVL
  NvLinkByPeer,   // NVB, through another GPU
  ChipToChip,     // C2C
  OneSwitch,      // PIX
  Switches,       // PXB
  ChipToChipNic,  // P2C
  NicByPeer,      // PXN, a NIC reached over NVLink through the GPU next to it
  HostBridge,     // PHB
  AcrossSockets,  // SYS
  Network,        // NET
  None            // DIS
};
[[nodiscard]] std::string_view to_string(PathType type);

enum class CpuVendor : std::uint8_t { Intel, Amd, Arm };

inline constexpr std::size_t kOperations = 7;  // the first ones of CollectiveOp

// The allowed algorithms and protocols, by operation. "ByDefault" applies NCCL's own rule for
// LL128.
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
  // For GPUs that are not NVIDIA's: true uses a registered algorithm instead, false refuses them.
  bool allow_fallback = false;
  bool machine = true;  // true: times of the machine model; false: times of NCCL's tuning model
  std::optional<std::uint32_t> sm = {};  // compute capability x 10; empty: from the GPU's name
  std::optional<CpuVendor> cpu = {};     // empty: from the node type's name
};

inline constexpr std::uint32_t kChannelsMost = 64;  // MAXCHANNELS

// The options of a scenario or a command line, in the terms of NCCL's environment variables.
struct Settings {
  std::string version = Options{}.version;
  std::string algo = {};                          // NCCL_ALGO; empty: all algorithms
  std::string proto = {};                         // NCCL_PROTO; empty: NCCL's default
  std::optional<std::int64_t> min_channels = {};  // NCCL_MIN_NCHANNELS, 1 to kChannelsMost
  std::optional<std::int64_t> max_channels = {};  // NCCL_MAX_NCHANNELS

  bool operator==(const Settings&) const = default;
};

// Throws one InputError with all problems; the pointer of each is its setting ("/version").
[[nodiscard]] Options options_of(const Settings& settings);

// Parse NCCL's own syntax: "Ring,Tree", "^NVLS", "Ring;allreduce:Tree,NVLS". An empty text allows
// all. Throw InputError for a name that NCCL does not have.
[[nodiscard]] AlgorithmMask parse_algorithms(const std::string& text);
[[nodiscard]] ProtocolMask parse_protocols(const std::string& text);

}  // namespace trainyard::nccl
