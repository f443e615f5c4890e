#include "kernels/bench/nvml.hpp"

#include <dlfcn.h>

#include <array>
#include <memory>

namespace trainyard::bench {

namespace {

using Json = nlohmann::ordered_json;
using Device = struct NvmlDevice*;

struct CloseLibrary {
  void operator()(void* library) const { (void)dlclose(library); }
};

// The few functions used, declared as NVML's reference does; all return 0 on success.
class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    started_ = library_ && call<>("nvmlInit_v2");
  }
  ~Nvml() {
    if (started_) (void)call<>("nvmlShutdown");
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  [[nodiscard]] bool started() const { return started_; }

  // False when the library has no such function, or the function fails.
  template <class... Arguments>
  [[nodiscard]] bool call(const char* name, Arguments... arguments) const {
    using Function = int (*)(Arguments...);
    void* symbol = dlsym(library_.get(), name);
    return symbol != nullptr && reinterpret_cast<Function>(symbol)(arguments...) == 0;
  }

 private:
  std::unique_ptr<void, CloseLibrary> library_;
  bool started_ = false;
};

struct Reading {
  const char* key;
  const char* function;
  unsigned which;  // clock domain: 1 SM, 2 memory; temperature sensor: 0 the GPU
};
constexpr std::array selected_readings = {
    Reading{"sm_clock_mhz", "nvmlDeviceGetClockInfo", 1},
    Reading{"memory_clock_mhz", "nvmlDeviceGetClockInfo", 2},
    Reading{"sm_clock_most_mhz", "nvmlDeviceGetMaxClockInfo", 1},
    Reading{"temperature_c", "nvmlDeviceGetTemperature", 0}};
constexpr std::array plain_readings = {
    Reading{"power_mw", "nvmlDeviceGetPowerUsage", 0},
    Reading{"power_limit_mw", "nvmlDeviceGetEnforcedPowerLimit", 0}};

}  // namespace

Json nvml_readings(const std::string& pci_bus_id) {
  Json json = Json::object();
  const Nvml nvml;
  if (!nvml.started()) return json;
  std::array<char, 96> driver{};
  if (nvml.call("nvmlSystemGetDriverVersion", driver.data(), static_cast<unsigned>(driver.size())))
    json["driver"] = driver.data();
  Device device = nullptr;
  if (!nvml.call("nvmlDeviceGetHandleByPciBusId_v2", pci_bus_id.c_str(), &device)) return json;
  unsigned value = 0;
  for (const Reading& reading : selected_readings)
    if (nvml.call(reading.function, device, reading.which, &value)) json[reading.key] = value;
  for (const Reading& reading : plain_readings)
    if (nvml.call(reading.function, device, &value)) json[reading.key] = value;
  return json;
}

}  // namespace trainyard::bench
