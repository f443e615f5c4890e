// The words of NCCL: its algorithms, protocols and classes of paths.
//
// A protocol is how a chunk is marked as arrived. LL puts a flag beside every 4 bytes of data, so
// half of what crosses the wire is data; LL128 one in 128 bytes (120 are data); Simple none, but it
// waits for memory fences.
//
//   to_string(Algorithm::NvlsTree);            // "NVLSTree", as NCCL_ALGO spells it
//   wire_efficiency(Protocol::LL128);          // 0.9375
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

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

}  // namespace trainyard::nccl
