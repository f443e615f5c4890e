#include "kernels/bench/measure.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/bench/measured_profile.hpp"
#include "kernels/bench/reference.hpp"
#include "sim/base/check.hpp"

namespace trainyard::bench {

namespace {

std::int64_t flush_bytes() {
  int device = 0;
  int l2_bytes = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device), "asking for the L2");
  // At least 128 MiB, so that the write takes longer than queueing the work after it.
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

std::vector<double> read_stored(const DeviceMemory& memory, const StoredRange& range) {
  const auto size = static_cast<std::int64_t>(element_bytes(range.dtype));
  TY_CHECK(
      size >= 2 && (range.first + range.count) * size <= static_cast<std::int64_t>(memory.bytes()),
      range.first, range.count);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(range.count * size));
  check(
      cudaMemcpy(bytes.data(), memory.at(range.first * size), bytes.size(), cudaMemcpyDeviceToHost),
      "reading a result");
  std::vector<double> values;
  for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(size)) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, static_cast<std::size_t>(size));
    values.push_back(reference::decoded(range.dtype, bits));
  }
  return values;
}

namespace {

cublasLtHandle_t make_cublaslt() {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "starting cuBLASLt");
  return handle;
}

struct Measure {
  const Bench& bench;
  MeasuredRow operator()(const Gemm& gemm) const { return measure_gemm(bench, gemm); }
  MeasuredRow operator()(const GroupedGemm& gemm) const { return measure_grouped(bench, gemm); }
  MeasuredRow operator()(const Interference& task) const {
    return measure_interference(bench, task);
  }
  MeasuredRow operator()(const FusedGemm& fused) const { return measure_fused(bench, fused); }
  MeasuredRow operator()(const Attention& attention) const {
    return measure_attention(bench, attention);
  }
  MeasuredRow operator()(const UnfusedAttention& task) const {
    return measure_unfused(bench, task);
  }
  MeasuredRow operator()(const RowKernel& kernel) const { return measure_rows(bench, kernel); }
  MeasuredRow operator()(const Copy& copy) const { return measure_copy(bench, copy); }
  MeasuredRow operator()(const Launches& launches) const {
    return measure_launches(bench, launches);
  }
};

}  // namespace

Bench::Bench() : cublaslt(make_cublaslt()), workspace(std::int64_t{32} << 20) {}

MeasuredRow measure(const Bench& bench, const Task& task) {
  return std::visit(Measure{bench}, task);
}

}  // namespace trainyard::bench
