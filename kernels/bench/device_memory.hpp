// Memory, streams and events of the GPU that free themselves.
//
//   const DeviceMemory weights(2 * 8192 * 8192);
//   cudaMemsetAsync(weights.get(), 0, weights.bytes(), stream.get());
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "kernels/bench/cuda_call.hpp"

namespace trainyard::bench {

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

// Pinned, as the staging buffers of training frameworks are.
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

}  // namespace trainyard::bench
