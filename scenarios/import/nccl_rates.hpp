// What NCCL takes the links of a machine for, as its topology files describe them.
//
//   nvlink_rate(90)                        // 20.6 GB/s a link
//   pcie_rate("32.0 GT/s PCIe", 16)        // 48 GB/s
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/base/units.hpp"

namespace trainyard::nccl_rates {

// Of one NVLink, one direction, by compute capability times ten (NVIDIA/nccl v2.30
// src/graph/topo.h).
[[nodiscard]] BytesPerSecond nvlink_rate(std::uint32_t sm);
// The compute capability whose links have that rate.
[[nodiscard]] std::optional<std::uint32_t> sm_of_rate(BytesPerSecond rate);

// Width x lane rate / 80, lane rates in 100 Mb/s (src/graph/topo.cc). An unknown speed counts as
// 8 GT/s, a width of zero as 16.
[[nodiscard]] BytesPerSecond pcie_rate(std::string_view speed, std::uint32_t width);

struct PcieLink {
  std::string speed;
  std::uint32_t width = 16;
};
// The link that has that rate, as files write it; nothing where none has.
[[nodiscard]] std::optional<PcieLink> pcie_link(BytesPerSecond rate);

// Between two CPUs (src/graph/topo.h, topo.cc).
struct CpuName {
  std::string arch = "x86_64";
  std::string vendor = "GenuineIntel";
  int family = 6;
  int model = 143;
};
[[nodiscard]] BytesPerSecond socket_rate(const CpuName& cpu);
[[nodiscard]] std::optional<CpuName> cpu_of_rate(BytesPerSecond rate);

// The GPU profile of a PCI device id such as "0x2330" (the PCI ID database of Nvidia's GPUs), and
// the other way round; empty where it is none of those known.
[[nodiscard]] std::string_view gpu_of_device(std::string_view id);
[[nodiscard]] std::string_view device_of_gpu(std::string_view profile);

}  // namespace trainyard::nccl_rates
