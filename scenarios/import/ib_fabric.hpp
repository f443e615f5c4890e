// Reads an InfiniBand fabric from what its tools print: `ibnetdiscover`, or `iblinkinfo` with or
// without -l.
//
//    const IbFabric fabric = read_ib_fabric(read_file("fabric.txt"), "fabric.txt");
//    fabric.devices[0].name;   // "MF0;leaf01:MQM9700/U1"
//    fabric.cables[0].rate;    // 50e9 bytes/s: 4xNDR
//
// A rate is the width times the data rate of a lane: SDR 2, DDR 4, QDR 8 Gb/s (8b/10b takes a fifth
// of 2.5, 5 and 10), FDR10 10, FDR 13.64 (64b/66b), EDR 25, HDR 50, NDR 100, XDR 200 (InfiniBand
// Architecture Specification, volume 2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"

namespace trainyard {

struct IbDevice {
  bool is_switch = false;
  std::string name = {};    // its NodeDescription
  std::string key = {};     // its GUID; in iblinkinfo its LID
  std::uint32_t ports = 0;  // of a switch, as the file says or as its highest port number; else 1
  bool operator==(const IbDevice&) const = default;
};

struct IbCable {
  struct End {
    std::size_t device = 0;  // in IbFabric::devices
    std::uint32_t port = 0;
    auto operator<=>(const End&) const = default;
  };
  End a = {};
  End b = {};
  BytesPerSecond rate = {};  // data rate of each direction; zero: the file does not tell
  std::size_t line = 0;      // where it was read first
};

struct IbFabric {
  std::vector<IbDevice> devices = {};  // in the order of the file
  std::vector<IbCable> cables = {};    // each once
  std::string tool = {};               // "ibnetdiscover" or "iblinkinfo"
  std::string file = {};
};

// Throws InputError, with the line, for text of another program, for a port with two cables, for a
// cable to a switch that the file does not list (a truncated file), and for an unknown speed other
// than ???.
[[nodiscard]] IbFabric read_ib_fabric(std::string_view text, const std::string& file);

// Returns the data rate of "4xHDR" (200 Gb/s); zero for a rate that ibnetdiscover prints as ???.
// Throws InputError with the line for other text.
[[nodiscard]] BytesPerSecond ib_rate(std::string_view text, const std::string& file,
                                     std::size_t line);

}  // namespace trainyard
