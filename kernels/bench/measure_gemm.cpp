#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "kernels/bench/device.hpp"
#include "kernels/bench/gemm_plan.hpp"
#include "kernels/bench/measure.hpp"
#include "kernels/bench/measured_profile.hpp"
#include "kernels/bench/random_value.hpp"
#include "kernels/bench/reference.hpp"
#include "kernels/bench/row_kernels.hpp"

namespace trainyard::bench {

namespace {

constexpr std::uint64_t a_seed = 1;
constexpr std::uint64_t b_seed = 2;
constexpr std::uint64_t gradient_seed = 3;
constexpr std::uint64_t bias_seed = 10;
constexpr int entries_checked = 32;

struct GemmMemory {
  DeviceMemory a, b, result;
  [[nodiscard]] GemmOperands operands() const { return {a.get(), b.get(), result.get()}; }
};

std::int64_t stored_bytes(std::int64_t count, DataType dtype) {
  return count * static_cast<std::int64_t>(element_bytes(dtype));
}

GemmMemory allocate(const Gemm& g) {
  return {DeviceMemory(stored_bytes(g.batch * g.m * g.k, g.dtype)),
          DeviceMemory(stored_bytes(g.batch * g.k * g.n, g.dtype)),
          DeviceMemory(stored_bytes(g.batch * g.m * g.n, result_dtype(g)))};
}

void fill_operands(const Bench& bench, const Gemm& g, const GemmMemory& memory) {
  const auto fill = [&bench](const DeviceMemory& into, std::int64_t count, DataType dtype,
                             std::uint64_t seed) {
    check(fill_random({into.get(), count, dtype, seed}, bench.watch.stream()), "filling operands");
  };
  fill(memory.a, g.batch * g.m * g.k, g.dtype, a_seed);
  fill(memory.b, g.batch * g.k * g.n, g.dtype, b_seed);
  fill(memory.result, g.batch * g.m * g.n, result_dtype(g), gradient_seed);
}

// Transforms an entry of a GEMM after the multiplication, as the library call does.
using Finish = std::function<double(const reference::GemmEntry& entry, double value)>;

// Compares one entry with the CPU's, which computes the operands from their seeds.
void check_entry(const Gemm& gemm, const GemmMemory& memory, const reference::GemmEntry& entry,
                 const Finish& finish) {
  const auto stored = [&gemm](std::uint64_t seed) {
    return [&gemm, seed](std::int64_t place) {
      return reference::rounded(gemm.dtype, static_cast<double>(random_value(seed, place)));
    };
  };
  const std::int64_t place = reference::result_place(gemm, entry);
  double expected = reference::gemm_entry(gemm, entry, stored(a_seed), stored(b_seed));
  if (gemm.accumulate_fp32) expected += static_cast<double>(random_value(gradient_seed, place));
  if (finish) expected = finish(entry, expected);
  const double computed =
      read_stored(memory.result, {.dtype = result_dtype(gemm), .first = place, .count = 1}).front();
  if (!(std::abs(computed - expected) <= gemm_tolerance(gemm, expected)))
    throw WrongResult(fmt::format("entry ({}, {}, {}) is {}, the reference says {}", entry.batch,
                                  entry.row, entry.column, computed, expected));
}

// Checks the first and the last entry, and entries drawn by the same generator every time.
void check_result(const Gemm& gemm, const GemmMemory& memory, const Finish& finish = {}) {
  check_entry(gemm, memory, {0, 0, 0}, finish);
  check_entry(gemm, memory, {gemm.batch - 1, gemm.m - 1, gemm.n - 1}, finish);
  for (std::uint64_t i = 0; i < entries_checked; ++i) {
    const auto draw = [i](std::uint64_t what, std::int64_t below) {
      return static_cast<std::int64_t>(mixed_bits(3 * i + what + 1) %
                                       static_cast<std::uint64_t>(below));
    };
    check_entry(gemm, memory, {draw(0, gemm.batch), draw(1, gemm.m), draw(2, gemm.n)}, finish);
  }
}

// The algorithm with the shortest of a few trial runs.
std::size_t fastest(const Bench& bench, const GemmPlan& plan, const GemmMemory& memory) {
  std::size_t best = 0;
  double best_us = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < plan.algorithms().size(); ++i) {
    const auto run = [&] { plan.run(plan.algorithms()[i], memory.operands()); };
    const double us = std::ranges::min(bench.watch.times_us(run, trial_runs));
    if (us < best_us) {
      best_us = us;
      best = i;
    }
  }
  return best;
}

}  // namespace

// Allowed error of one entry. Operands have deviation 1.155, so the entries of a GEMM have
// deviation 1.33 sqrt(k), and a wrong entry deviates by about that. Sums of tensor cores deviate by
// less than a thousandth of it (fp8 on Hopper: by less than a hundredth, because its sums keep 14
// bits), and storing rounds once more.
double gemm_tolerance(const Gemm& gemm, double expected) {
  const double summing = gemm.dtype == DataType::Fp8 ? 0.02 : 0.002;
  const int bits = reference::number_format(result_dtype(gemm)).fraction_bits;
  return summing * std::sqrt(static_cast<double>(gemm.k)) +
         std::abs(expected) * std::ldexp(1.0, -bits);
}

MeasuredRow measure_gemm(const Bench& bench, const Gemm& gemm) {
  const GemmPlan plan(bench, gemm);
  const GemmMemory memory = allocate(gemm);
  fill_operands(bench, gemm, memory);
  const auto& chosen = plan.algorithms()[fastest(bench, plan, memory)];
  // The trials have added into the gradient; the checked run starts from known values.
  fill_operands(bench, gemm, memory);
  const auto run = [&] { plan.run(chosen, memory.operands()); };
  run();
  bench.watch.wait();
  check_result(gemm, memory);
  bench.watch.warm_up(run);
  return {gemm, spread_of(bench.watch.times_us(run, timed_runs)), algorithm_text(chosen)};
}

MeasuredRow measure_fused(const Bench& bench, const FusedGemm& fused) {
  const Gemm& gemm = fused.gemm;
  if (gemm.batch != 1 || gemm.accumulate_fp32 || gemm.pass != GemmPass::Forward)
    throw Unsupported("an epilogue needs a single forward GEMM");
  const DataType dtype = result_dtype(gemm);
  const DeviceMemory bias(stored_bytes(gemm.n, dtype));
  check(fill_random({bias.get(), gemm.n, dtype, bias_seed}, bench.watch.stream()),
        "filling a bias");
  const GemmPlan plan(bench, fused, bias.get());
  const GemmMemory memory = allocate(gemm);
  fill_operands(bench, gemm, memory);
  const auto& chosen = plan.algorithms()[fastest(bench, plan, memory)];
  const auto run = [&] { plan.run(chosen, memory.operands()); };
  run();
  bench.watch.wait();
  check_result(gemm, memory, [&](const reference::GemmEntry& entry, double value) {
    const double biased =
        value +
        reference::rounded(dtype, static_cast<double>(random_value(bias_seed, entry.column)));
    return fused.epilogue == Epilogue::Bias ? biased : reference::gelu(biased);
  });
  bench.watch.warm_up(run);
  return {fused, spread_of(bench.watch.times_us(run, timed_runs)), algorithm_text(chosen)};
}

namespace {

// Occupies SMs and copies memory on a separate stream.
class Occupier {
 public:
  explicit Occupier(std::int64_t sms)
      : bytes_(sms * (std::int64_t{4} << 20)),
        sms_(sms),
        from_(bytes_),
        into_(bytes_),
        copied_(sizeof(unsigned long long)),
        stream_(make_stream()) {}

  void start(double microseconds) const {
    check(cudaMemsetAsync(copied_.get(), 0, copied_.bytes(), stream_.get()), "clearing a counter");
    check(launch_occupation({.from = from_.get(),
                             .into = into_.get(),
                             .bytes = bytes_,
                             .sms = sms_,
                             .nanoseconds = static_cast<std::int64_t>(microseconds * 1e3),
                             .copied_bytes = static_cast<unsigned long long*>(copied_.get())},
                            stream_.get()),
          "holding SMs");
    // The kernel is resident on its SMs long before this time has passed.
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  [[nodiscard]] bool running() const { return cudaStreamQuery(stream_.get()) == cudaErrorNotReady; }
  // Waits for the kernel and returns the bytes that it copied since the start.
  [[nodiscard]] double finish() const {
    check(cudaStreamSynchronize(stream_.get()), "waiting for the kernel that holds SMs");
    unsigned long long copied = 0;
    check(cudaMemcpy(&copied, copied_.get(), sizeof copied, cudaMemcpyDeviceToHost),
          "reading a counter");
    return static_cast<double>(copied);
  }

 private:
  std::int64_t bytes_;
  std::int64_t sms_;
  DeviceMemory from_, into_, copied_;
  Stream stream_;
};

// Bytes per second that the occupier copies while `work` runs `times` times.
double copied_rate(const Bench& bench, const Occupier& occupier, const std::function<void()>& work,
                   int times) {
  constexpr double microseconds = 10'000.0;
  occupier.start(microseconds);
  for (int i = 0; i < times; ++i) work();
  const double bytes = occupier.finish();
  bench.watch.wait();
  return bytes / (microseconds * 1e-6);
}

}  // namespace

// Measures the GEMM alone and with a kernel that holds SMs, and the rate of that kernel's copies
// with and without the GEMM.
MeasuredRow measure_interference(const Bench& bench, const Interference& task) {
  const GemmPlan plan(bench, task.gemm);
  const GemmMemory memory = allocate(task.gemm);
  fill_operands(bench, task.gemm, memory);
  const auto& chosen = plan.algorithms()[fastest(bench, plan, memory)];
  const auto run = [&] { plan.run(chosen, memory.operands()); };
  fill_operands(bench, task.gemm, memory);
  run();
  bench.watch.wait();
  check_result(task.gemm, memory);
  bench.watch.warm_up(run);
  const double alone_us = spread_of(bench.watch.times_us(run, timed_runs)).median;
  const Occupier occupier(task.sms);
  std::vector<double> times;
  for (int i = 0; i < timed_runs; ++i) {
    // Longer than the cache flush and the GEMM, however much the GEMM slows down.
    constexpr double flushing_us = 3000.0;
    occupier.start(4.0 * alone_us + flushing_us);
    times.push_back(bench.watch.times_us(run, 1).front());
    const bool lasted = occupier.running();
    (void)occupier.finish();
    if (!lasted) throw Unsupported("the kernel that holds SMs ended before the GEMM");
  }
  // Enough runs of the GEMM to fill the 10 ms of the copy.
  const int filling = static_cast<int>(10'000.0 / alone_us) + 1;
  const double interference = copied_rate(bench, occupier, run, filling);
  const double by_itself = copied_rate(bench, occupier, run, 0);
  return {task, spread_of(std::move(times)), algorithm_text(chosen),
          InterferenceResult{.alone_us = alone_us,
                             .copied_bytes_per_s = interference,
                             .copied_alone_bytes_per_s = by_itself}};
}

nlohmann::ordered_json readings_under_load(const Bench& bench) {
  // Takes about 0.5 s on an H100, 1.1 s on an A100. NVML averages power over up to 0.1 s.
  constexpr int gemms = 300;
  const Gemm gemm{.m = 8192, .n = 8192, .k = 8192};
  const GemmPlan plan(bench, gemm);
  const GemmMemory memory = allocate(gemm);
  fill_operands(bench, gemm, memory);
  const Event middle = make_event();
  for (int i = 0; i < gemms; ++i) {
    if (i == gemms / 2)
      check(cudaEventRecord(middle.get(), bench.watch.stream()), "recording an event");
    plan.run(plan.algorithms().front(), memory.operands());
  }
  check(cudaEventSynchronize(middle.get()), "waiting for half of the GEMMs");
  nlohmann::ordered_json readings = device_readings();
  bench.watch.wait();
  return readings;
}

}  // namespace trainyard::bench
