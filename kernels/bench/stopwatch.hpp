// Times work on the GPU by events, each run with a cold L2 cache.
//
//   const Stopwatch watch;
//   Spread us = spread_of(watch.times_us([&] { launch(watch.stream()); }, timed_runs));
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#include "kernels/bench/device_memory.hpp"

namespace trainyard::bench {

class Stopwatch {
 public:
  // REQUIRES: a device is selected (device.hpp).
  Stopwatch();
  [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }

  // Microseconds of each of `runs` runs. Before each, a buffer twice as large as the L2 is written;
  // while that goes on the CPU queues the work, so launching is not part of the time.
  [[nodiscard]] std::vector<double> times_us(const std::function<void()>& work, int runs) const;
  // Runs without being timed.
  void warm_up(const std::function<void()>& work) const;
  void wait() const { check(cudaStreamSynchronize(stream()), "waiting for the GPU"); }

 private:
  Stream stream_;
  DeviceMemory flushed_;
};

}  // namespace trainyard::bench
