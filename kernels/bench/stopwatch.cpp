#include "kernels/bench/stopwatch.hpp"

#include <algorithm>

#include "kernels/bench/protocol.hpp"

namespace trainyard::bench {

namespace {

std::int64_t flush_bytes() {
  int device = 0;
  int l2_bytes = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device), "asking for the L2");
  // At least 128 MiB: the write then outlasts the queueing of the work behind it.
  return std::max<std::int64_t>(2 * std::int64_t{l2_bytes}, std::int64_t{128} << 20);
}

}  // namespace

Stopwatch::Stopwatch() : stream_(make_stream()), flushed_(flush_bytes()) {}

std::vector<double> Stopwatch::times_us(const std::function<void()>& work, int runs) const {
  std::vector<Event> events;
  for (int i = 0; i < 2 * runs; ++i) events.push_back(make_event());
  for (std::size_t i = 0; i < events.size(); i += 2) {
    check(cudaMemsetAsync(flushed_.get(), 0, flushed_.bytes(), stream()), "flushing the L2");
    check(cudaEventRecord(events[i].get(), stream()), "recording an event");
    work();
    check(cudaEventRecord(events[i + 1].get(), stream()), "recording an event");
  }
  wait();
  std::vector<double> times;
  for (std::size_t i = 0; i < events.size(); i += 2) {
    float milliseconds = 0.0F;
    check(cudaEventElapsedTime(&milliseconds, events[i].get(), events[i + 1].get()),
          "reading a time");
    times.push_back(1e3 * static_cast<double>(milliseconds));
  }
  return times;
}

void Stopwatch::warm_up(const std::function<void()>& work) const {
  for (int i = 0; i < warm_up_runs; ++i) work();
  wait();
}

}  // namespace trainyard::bench
