// The parts of a cluster: devices, and the wires that join them.
//
// A full-duplex wire is two links. A capacity is the rate that a collective can use (NCCL's
// constants for NVLink and PCIe, payload rates for NICs). The nominal rate is stored in addition,
// for reports.
//
//    const Device leaf{.kind = DeviceKind::LeafSwitch, .index = 2};
//    usual_name(leaf);   // "leaf 2"
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/id.hpp"
#include "sim/base/units.hpp"

namespace trainyard {

using DeviceId = Id<struct DeviceTag>;
using LinkId = Id<struct LinkTag>;

enum class DeviceKind : std::uint8_t {
  Gpu,
  NvSwitch,
  PcieSwitch,
  Nic,
  LeafSwitch,
  SpineSwitch,
  CoreSwitch,
  Cpu
};
inline constexpr std::size_t kDeviceKinds = 8;
[[nodiscard]] std::string_view to_string(DeviceKind kind);

// ChipToChip joins a GPU and its CPU without PCIe (Grace). Socket joins two CPUs of one server.
// Local joins neighbouring switches of one tier (a torus, a dragonfly group). Global joins two
// dragonfly groups.
enum class LinkKind : std::uint8_t {
  NvLink,
  Pcie,
  NicPort,
  LeafSpine,
  SpineCore,
  ChipToChip,
  Socket,
  Local,
  Global
};
inline constexpr std::size_t kLinkKinds = 9;
[[nodiscard]] std::string_view to_string(LinkKind kind);

[[nodiscard]] constexpr bool is_fabric_switch(DeviceKind kind) {
  return kind == DeviceKind::LeafSwitch || kind == DeviceKind::SpineSwitch ||
         kind == DeviceKind::CoreSwitch;
}
[[nodiscard]] constexpr bool is_host_side(LinkKind kind) {
  return kind == LinkKind::Pcie || kind == LinkKind::ChipToChip || kind == LinkKind::Socket;
}
// True for links between nodes. They join NICs and switches of the fabric.
[[nodiscard]] constexpr bool is_fabric_side(LinkKind kind) {
  return kind != LinkKind::NvLink && !is_host_side(kind);
}

struct Device {
  DeviceKind kind = DeviceKind::Gpu;
  std::int32_t node = -1;  // server; -1 for switches of the fabric
  std::int32_t index = 0;  // index among its kind in the node (GPU 0..7) or the fabric
  bool operator==(const Device&) const = default;
};

// Returns the default name of a device: "node 3 gpu 5", "leaf 2".
[[nodiscard]] std::string usual_name(const Device& device);

// A device as cluster files describe it.
struct NamedDevice {
  DeviceKind kind = DeviceKind::Gpu;
  std::string name = {};
  std::int32_t node = -1;
  std::int32_t index = 0;
  bool operator==(const NamedDevice&) const = default;
};

// A link without its two devices.
struct Wire {
  LinkKind kind = LinkKind::NvLink;
  BytesPerSecond capacity = {};  // usable
  BytesPerSecond nominal = {};   // as sold
  Seconds latency = {};          // one traversal
  std::uint32_t cables = 1;      // parallel cables that the link combines; the rates are their sums
  auto operator<=>(const Wire&) const = default;
};

struct Link {
  LinkId id = 0;
  LinkKind kind = LinkKind::NvLink;
  DeviceId from = 0;
  DeviceId to = 0;
  BytesPerSecond capacity = {};
  BytesPerSecond nominal = {};
  Seconds latency = {};
  std::uint32_t cables = 1;
  bool operator==(const Link&) const = default;
};

// A link without its id. `wire` is the index of its wire in the wire table (wiring.hpp).
struct LinkEnds {
  DeviceId from = 0;
  DeviceId to = 0;
  std::uint32_t wire = 0;
};

[[nodiscard]] inline Wire wire_of(const Link& link) {
  return {link.kind, link.capacity, link.nominal, link.latency, link.cables};
}

}  // namespace trainyard
