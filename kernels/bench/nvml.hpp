// Clocks, power and temperature from NVIDIA's management library, which comes with the driver. It
// is loaded while running, so that the profilers also build and run where it is not.
//
//   nvml_readings("0000:1b:00.0");   // {"driver": "580.65.06", "sm_clock_mhz": 1980, ...}
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace trainyard::bench {

// An empty object without NVML; a reading that the GPU does not offer is left out.
[[nodiscard]] nlohmann::ordered_json nvml_readings(const std::string& pci_bus_id);

}  // namespace trainyard::bench
