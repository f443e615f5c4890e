// Where and with what a profile was measured: GPU, versions, clocks, power, date, command.
//
//   select_device();   // throws RunError "no CUDA device: ..." without one
//   profile.provenance = provenance({"trainyard-profile", "--out", "h200.json"});
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trainyard::bench {

// Throws RunError when there is no device, no driver, or one older than this program's CUDA.
void select_device();

// Of the selected device. What NVML knows (driver, clocks, power, temperature) is left out when
// there is no NVML.
[[nodiscard]] nlohmann::ordered_json provenance(const std::vector<std::string>& command);

// What NVML says of the selected device now: driver, clocks, power, temperature.
[[nodiscard]] nlohmann::ordered_json device_readings();

// "trainyard-profile 0.1.0, CUDA 13.0, cuBLASLt 13.0.2": needs no device.
[[nodiscard]] std::string version_text();

}  // namespace trainyard::bench
