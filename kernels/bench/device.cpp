#include "kernels/bench/device.hpp"

#include <dlfcn.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace trainyard::bench {

// A kernel that does not fit into memory is skipped (Unsupported); any other error ends the run.
void check(cudaError_t code, std::string_view doing) {
  if (code == cudaSuccess) return;
  const std::string problem = fmt::format("{}: {}", doing, cudaGetErrorString(code));
  if (code != cudaErrorMemoryAllocation) throw RunError(problem);
  // Clears the error, which the next kernel's check would otherwise find again.
  (void)cudaGetLastError();
  throw Unsupported(problem);
}

// A shape that cuBLASLt does not support is skipped; any other error ends the run.
void check(cublasStatus_t code, std::string_view doing) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  const std::string problem = fmt::format("{}: {}", doing, cublasLtGetStatusName(code));
  if (code == CUBLAS_STATUS_NOT_SUPPORTED || code == CUBLAS_STATUS_ARCH_MISMATCH)
    throw Unsupported(problem);
  throw RunError(problem);
}

namespace {

// Clocks, power and temperature from NVIDIA's management library (NVML), which comes with the
// driver. It is loaded at run time, so that the profilers also build and run without it.
//
//    nvml_readings("0000:1b:00.0");   // {"driver": "580.65.06", "sm_clock_mhz": 1980, ...}

using Json = nlohmann::ordered_json;
using Device = struct NvmlDevice*;

struct CloseLibrary {
  void operator()(void* library) const { (void)dlclose(library); }
};

// The few NVML functions that are used, declared as in its reference. All return 0 on success.
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
  unsigned which;  // clock domain: 1 SM, 2 memory; temperature sensor: 0 GPU
};
constexpr std::array selected_readings = {
    Reading{"sm_clock_mhz", "nvmlDeviceGetClockInfo", 1},
    Reading{"memory_clock_mhz", "nvmlDeviceGetClockInfo", 2},
    Reading{"sm_clock_most_mhz", "nvmlDeviceGetMaxClockInfo", 1},
    Reading{"temperature_c", "nvmlDeviceGetTemperature", 0}};
constexpr std::array plain_readings = {
    Reading{"power_mw", "nvmlDeviceGetPowerUsage", 0},
    Reading{"power_limit_mw", "nvmlDeviceGetEnforcedPowerLimit", 0}};

// An empty object without NVML. A reading that the GPU does not offer is left out.
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

// CUDA's version number is 1000 per major version; cuBLAS's is 10000, with a patch number.
std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}
std::string cublaslt_version() {
  const std::size_t version = cublasLtGetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

int device_attribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&value, attribute, device), "asking the device");
  return value;
}

Json sheet(const cudaDeviceProp& properties) {
  return {{"compute_capability", fmt::format("{}.{}", properties.major, properties.minor)},
          {"sms", properties.multiProcessorCount},
          {"memory_bytes", properties.totalGlobalMem},
          {"l2_bytes", properties.l2CacheSize},
          {"clock_most_khz", device_attribute(cudaDevAttrClockRate)},
          {"memory_clock_most_khz", device_attribute(cudaDevAttrMemoryClockRate)},
          {"memory_bus_bits", properties.memoryBusWidth}};
}

}  // namespace

void select_device() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess)
    throw RunError(fmt::format("no CUDA device: {}", cudaGetErrorString(code)));
  if (count == 0) throw RunError("no CUDA device: the driver lists none");
  check(cudaSetDevice(0), "no CUDA device");
}

Json device_readings() {
  int device = 0;
  char bus_id[32] = {};
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device), "asking for the PCI address");
  return nvml_readings(bus_id);
}

// Facts that decide whether two profiles may be compared or merged: the GPU, the software, clocks
// and power, the date and the command.
Json provenance(const std::vector<std::string>& command) {
  int device = 0;
  int runtime = 0;
  int driver_cuda = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaGetDeviceProperties(&properties, device), "asking the device");
  check(cudaRuntimeGetVersion(&runtime), "asking for the version");
  check(cudaDriverGetVersion(&driver_cuda), "asking for the version");
  Json json = {{"gpu", properties.name},
               {"device", sheet(properties)},
               {"cuda_runtime", cuda_version(runtime)},
               {"cuda_of_driver", cuda_version(driver_cuda)},
               {"cublaslt", cublaslt_version()}};
  json.update(device_readings());
  json["date"] = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  json["command"] = fmt::format("{}", fmt::join(command, " "));
  json["revision"] = TRAINYARD_REVISION;
  return json;
}

std::string version_text() {
  return fmt::format("trainyard-profile {} ({}), CUDA {}, cuBLASLt {}", TRAINYARD_VERSION,
                     TRAINYARD_REVISION, cuda_version(CUDART_VERSION), cublaslt_version());
}

}  // namespace trainyard::bench
