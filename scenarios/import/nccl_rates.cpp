#include "scenarios/import/nccl_rates.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace trainyard::nccl_rates {

namespace {

constexpr double kGiga = 1e9;
constexpr double kTolerance = 1e-6;  // of rates that went through a text

struct NvLink {
  std::uint32_t sm;
  double gigabytes;
};
constexpr std::array<NvLink, 6> kNvLinks = {
    {{60, 18.0}, {70, 20.0}, {80, 20.0}, {86, 12.0}, {90, 20.6}, {100, 40.1}}};

struct Lane {
  std::string_view speed;
  double rate;  // 100 Mb/s
};
constexpr std::array<Lane, 6> kLanes = {{{"2.5 GT/s PCIe", 15.0},
                                         {"5.0 GT/s PCIe", 30.0},
                                         {"8.0 GT/s PCIe", 60.0},
                                         {"16.0 GT/s PCIe", 120.0},
                                         {"32.0 GT/s PCIe", 240.0},
                                         {"64.0 GT/s PCIe", 480.0}}};
constexpr double kUnknownLane = 60.0;
constexpr std::uint32_t kUnknownWidth = 16;

// The first of a profile is the one that files are written with.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kProfiles = {{
    {"0x1db1", "v100"},
    {"0x1db5", "v100"},
    {"0x20b0", "a100_40gb"},
    {"0x20b2", "a100_80gb"},
    {"0x2324", "h800"},
    {"0x2330", "h100"},
    {"0x2335", "h200"},
    {"0x2336", "h100"},
    {"0x2901", "b200"},
    {"0x2941", "gb200"},
    {"0x3182", "b300"},
    {"0x26b9", "l40s"},
}};

bool equal(double a, double b) { return std::abs(a - b) <= kTolerance * std::abs(b); }

// "32.0 GT/s PCIe", "32 GT/s": the number is what counts.
std::optional<double> transfers(std::string_view speed) {
  double number = 0.0;
  const auto read = std::from_chars(speed.data(), speed.data() + speed.size(), number);
  if (read.ec != std::errc() || !std::isfinite(number) || number <= 0.0) return {};
  return number;
}

}  // namespace

BytesPerSecond nvlink_rate(std::uint32_t sm) {
  double rate = kNvLinks.front().gigabytes;
  for (const NvLink& link : kNvLinks) {
    const bool own_only = link.sm == 86;  // links of one chip, not of those after it
    if (own_only ? sm == link.sm || sm == 89 : sm >= link.sm) rate = link.gigabytes;
  }
  return BytesPerSecond{rate * kGiga};
}

std::optional<std::uint32_t> sm_of_rate(BytesPerSecond rate) {
  for (auto link = kNvLinks.rbegin(); link != kNvLinks.rend(); ++link)
    if (link->sm != 70 && equal(rate.value(), link->gigabytes * kGiga)) return link->sm;
  return {};
}

BytesPerSecond pcie_rate(std::string_view speed, std::uint32_t width) {
  double lane = kUnknownLane;
  if (const auto number = transfers(speed))
    for (const Lane& known : kLanes)
      if (equal(*number, *transfers(known.speed))) lane = known.rate;
  return BytesPerSecond{(width == 0 ? kUnknownWidth : width) * lane / 80.0 * kGiga};
}

std::optional<PcieLink> pcie_link(BytesPerSecond rate) {
  for (const std::uint32_t width : {16U, 8U, 4U, 2U, 1U, 32U})
    for (const Lane& lane : kLanes)
      if (equal(rate.value(), pcie_rate(lane.speed, width).value()))
        return PcieLink{.speed = std::string(lane.speed), .width = width};
  return {};
}

BytesPerSecond socket_rate(const CpuName& cpu) {
  double rate = 6.0;
  if (cpu.arch == "ppc64") rate = 32.0;
  if (cpu.vendor == "AuthenticAMD") rate = 16.0;
  if (cpu.vendor == "GenuineIntel" && cpu.family == 6) {
    if (cpu.model >= 0x55) rate = 10.0;
    if (cpu.model >= 0x8F) rate = 22.0;
    if (cpu.model >= 0xCF) rate = 40.0;
  }
  return BytesPerSecond{rate * kGiga};
}

std::optional<CpuName> cpu_of_rate(BytesPerSecond rate) {
  const std::array<CpuName, 6> known = {{{"x86_64", "GenuineIntel", 6, 143},
                                         {"x86_64", "AuthenticAMD", 175, 1},
                                         {"x86_64", "GenuineIntel", 6, 0xCF},
                                         {"x86_64", "GenuineIntel", 6, 0x55},
                                         {"x86_64", "GenuineIntel", 6, 0x4F},
                                         {"ppc64", "IBM", 0, 0}}};
  for (const CpuName& cpu : known)
    if (equal(rate.value(), socket_rate(cpu).value())) return cpu;
  return {};
}

std::string_view gpu_of_device(std::string_view id) {
  for (const auto& [device, profile] : kProfiles)
    if (device == id) return profile;
  return {};
}

std::string_view device_of_gpu(std::string_view profile) {
  for (const auto& [device, known] : kProfiles)
    if (known == profile) return device;
  return {};
}

}  // namespace trainyard::nccl_rates
