#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/bench/measure.hpp"
#include "kernels/bench/measured_profile.hpp"
#include "kernels/bench/row_kernels.hpp"

namespace trainyard::bench {

namespace {

constexpr std::uint64_t source_seed = 8;
// Number of bytes compared at the beginning and at the end of the copy, where a lost or shifted
// piece would be visible.
constexpr std::int64_t compared_most = 65536;

void fill_source(const Bench& bench, const DeviceMemory& source) {
  check(fill_random({source.get(), static_cast<std::int64_t>(source.bytes() / 4), DataType::Fp32,
                     source_seed},
                    bench.watch.stream()),
        "filling the source");
  bench.watch.wait();
}

std::vector<std::byte> piece(const void* memory, std::int64_t first, std::int64_t bytes) {
  std::vector<std::byte> copied(static_cast<std::size_t>(bytes));
  check(cudaMemcpy(copied.data(), static_cast<const std::byte*>(memory) + first, copied.size(),
                   cudaMemcpyDefault),
        "reading a copy");
  return copied;
}

struct Ends {
  const void* from;
  void* to;
};

void check_copy(const Ends& ends, std::int64_t bytes) {
  const std::int64_t compared = std::min(bytes, compared_most);
  for (const std::int64_t first : {std::int64_t{0}, bytes - compared})
    if (piece(ends.from, first, compared) != piece(ends.to, first, compared))
      throw WrongResult("the copy differs from its source");
}

}  // namespace

MeasuredRow measure_copy(const Bench& bench, const Copy& copy) {
  // Rounded up, so that the source can be filled with whole fp32 numbers.
  const std::int64_t allocated = (copy.bytes + 3) / 4 * 4;
  const DeviceMemory source(allocated);
  fill_source(bench, source);
  const DeviceMemory target(allocated);
  const HostMemory host(copy.kind == CopyKind::DeviceToDevice ? 4 : allocated);
  // Pinned memory is reused without being cleared; an earlier copy must not be mistaken for this
  // one.
  std::memset(host.get(), 0, host.bytes());
  Ends ends{.from = source.get(), .to = target.get()};
  if (copy.kind == CopyKind::DeviceToHost) ends.to = host.get();
  if (copy.kind == CopyKind::HostToDevice) {
    check(cudaMemcpy(host.get(), source.get(), host.bytes(), cudaMemcpyDeviceToHost),
          "filling the source");
    ends.from = host.get();
  }
  const auto run = [&] {
    check(cudaMemcpyAsync(ends.to, ends.from, static_cast<std::size_t>(copy.bytes),
                          cudaMemcpyDefault, bench.watch.stream()),
          "copying");
  };
  // The target is cleared in the stream of the copies, because a memset in another stream might run
  // after them.
  check(cudaMemsetAsync(target.get(), 0, target.bytes(), bench.watch.stream()),
        "clearing the target");
  run();
  bench.watch.wait();
  check_copy(ends, copy.bytes);
  bench.watch.warm_up(run);
  return {copy, spread_of(bench.watch.times_us(run, timed_runs)), ""};
}

}  // namespace trainyard::bench
