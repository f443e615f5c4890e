// The GPU as the profilers use it: its identity, checked calls, and memory, streams and events that
// are freed automatically. An error code of a CUDA library becomes a RunError, so that no failed
// call is measured.
//
//    const Stream stream = make_stream();
//    const DeviceMemory weights(2 * 8192 * 8192);   // bytes
//    check(cudaMemsetAsync(weights.get(), 0, weights.bytes(), stream.get()), "clearing weights");
//    check(cudaStreamSynchronize(stream.get()), "waiting for the GPU");
//
//    select_device();   // throws RunError "no CUDA device: ..." without one
//    profile.provenance = provenance({"trainyard-profile", "--output", "h200.json"});
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/bench/measured_profile.hpp"

namespace trainyard::bench {

// Throws RunError with `doing` and CUDA's message. Throws Unsupported when memory is exhausted,
// because the GPU can still be used after that.
void check(cudaError_t code, std::string_view doing);

// Also throws Unsupported for operations that cuBLASLt does not support.
void check(cublasStatus_t code, std::string_view doing);

struct FreeDevice {
  void operator()(void* memory) const { (void)cudaFree(memory); }
};

struct FreeHost {
  void operator()(void* memory) const { (void)cudaFreeHost(memory); }
};

class DeviceMemory {
 public:
  explicit DeviceMemory(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes_), "allocating GPU memory");
    memory_.reset(memory);
  }
  [[nodiscard]] void* get() const { return memory_.get(); }
  [[nodiscard]] std::byte* at(std::int64_t byte) const {
    return static_cast<std::byte*>(memory_.get()) + byte;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, FreeDevice> memory_;
  std::size_t bytes_;
};

// Pinned memory, like the staging buffers of training frameworks.
class HostMemory {
 public:
  explicit HostMemory(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, bytes_), "allocating pinned host memory");
    memory_.reset(memory);
  }
  [[nodiscard]] void* get() const { return memory_.get(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, FreeHost> memory_;
  std::size_t bytes_;
};

struct DestroyStream {
  void operator()(cudaStream_t stream) const { (void)cudaStreamDestroy(stream); }
};

using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;

[[nodiscard]] inline Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  return Stream(stream);
}

struct DestroyEvent {
  void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
};

using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;

[[nodiscard]] inline Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "creating an event");
  return Event(event);
}

// Throws RunError when there is no device, no driver, or a driver that is older than this program's
// CUDA.
void select_device();

// The provenance of rows that are measured on the selected device. Without NVML it contains no
// driver, clocks, power or temperature.
[[nodiscard]] nlohmann::ordered_json provenance(const std::vector<std::string>& command);

// Current driver, clocks, power and temperature of the selected device, as reported by NVML.
[[nodiscard]] nlohmann::ordered_json device_readings();

// "trainyard-profile 0.1.0, CUDA 13.0, cuBLASLt 13.0.2". It needs no device.
[[nodiscard]] std::string version_text();

}  // namespace trainyard::bench
