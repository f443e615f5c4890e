// NCCL's words (algorithms, protocols, classes of paths) and what a user may force with them.
//
// A protocol is how a chunk is marked as arrived. LL puts a flag beside every 4 bytes of data, so
// half of what crosses the wire is data. LL128 puts one into every 128 bytes, of which 120 are
// data. Simple sends no flags but waits for memory fences.
//
//   to_string(Algorithm::NvlsTree);       // "NVLSTree", as NCCL_ALGO spells it
//   wire_efficiency(Protocol::LL128);     // 0.9375
//   Options options{.algorithms = parse_algorithms("^NVLS")};    // NCCL_ALGO=^NVLS
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
// Share of the bytes on the wire that are the user's (NVIDIA/nccl src/include/device.h).
[[nodiscard]] double wire_efficiency(Protocol protocol);

// By compute capability: below 8.0, below 9.0, below 10.0, the rest. Tables have one row for each.
enum class Generation : std::uint8_t { Volta, Ampere, Hopper, Blackwell };
inline constexpr std::size_t kGenerations = 4;
[[nodiscard]] Generation generation_of(std::uint32_t compute_capability);

// How near two devices are, nearest first; comparisons go by this order.
enum class PathType : std::uint8_t {
  Same,           // LOC
  NvLink,         // NVL
  NvLinkByPeer,   // NVB, through another GPU
  ChipToChip,     // C2C
  OneSwitch,      // PIX
  Switches,       // PXB
  ChipToChipNic,  // P2C
  NicByPeer,      // PXN, a NIC reached over NVLink through the GPU beside it
  HostBridge,     // PHB
  AcrossSockets,  // SYS
  Network,        // NET
  None            // DIS
};
[[nodiscard]] std::string_view to_string(PathType type);

enum class CpuVendor : std::uint8_t { Intel, Amd, Arm };

inline constexpr std::size_t kOperations = 7;  // the first ones of CollectiveOp

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
