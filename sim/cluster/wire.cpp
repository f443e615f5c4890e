#include "sim/cluster/wire.hpp"

#include <fmt/format.h>

#include <array>

namespace trainyard {

namespace {

constexpr std::array<std::string_view, kDeviceKinds> kDeviceNames = {
    "gpu", "nvswitch", "pcie_switch", "nic", "leaf", "spine", "core", "cpu"};
constexpr std::array<std::string_view, kLinkKinds> kLinkNames = {
    "nvlink",       "pcie",   "nic",   "leaf_spine", "spine_core",
    "chip_to_chip", "socket", "local", "global"};

}  // namespace

std::string_view to_string(DeviceKind kind) {
  return kDeviceNames.at(static_cast<std::size_t>(kind));
}
std::string_view to_string(LinkKind kind) { return kLinkNames.at(static_cast<std::size_t>(kind)); }

std::string usual_name(const Device& device) {
  const std::string_view word =
      device.kind == DeviceKind::PcieSwitch ? "pcie switch" : to_string(device.kind);
  if (device.node < 0) return fmt::format("{} {}", word, device.index);
  return fmt::format("node {} {} {}", device.node, word, device.index);
}

}  // namespace trainyard
