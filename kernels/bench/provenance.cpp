#include "kernels/bench/provenance.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "kernels/bench/cuda_call.hpp"
#include "kernels/bench/nvml.hpp"

namespace trainyard::bench {

namespace {

using Json = nlohmann::ordered_json;

// CUDA counts 1000 a major version, cuBLAS 10000 with a patch number.
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
