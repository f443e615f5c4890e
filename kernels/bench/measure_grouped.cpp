#include <cublas_v2.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "kernels/bench/gemm_plan.hpp"
#include "kernels/bench/measure.hpp"
#include "kernels/bench/measured_profile.hpp"
#include "kernels/bench/random_value.hpp"
#include "kernels/bench/reference.hpp"
#include "kernels/bench/row_kernels.hpp"
#include "kernels/grouped_gemm.hpp"

namespace trainyard::bench {

namespace {

constexpr std::uint64_t grouped_a_seed = 8;
constexpr std::uint64_t grouped_b_seed = 9;
constexpr int expert_entries_checked = 8;  // of each checked expert
// fp8 tensor cores require extents in multiples of 16, so training pads the rows of each expert
// (Transformer Engine, documentation of fp8 padding).
constexpr std::int64_t fp8_rows = 16;

struct DestroyCublas {
  void operator()(cublasHandle_t handle) const { (void)cublasDestroy(handle); }
};
using Cublas = std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, DestroyCublas>;

// One expert's GEMM, and the offsets of its operands in the memory of all experts.
struct Expert {
  Gemm gemm;
  std::int64_t a = 0, b = 0, result = 0;  // elements
};

std::int64_t padded(const GroupedGemm& grouped, std::int64_t rows) {
  return grouped.dtype == DataType::Fp8 ? (rows + fp8_rows - 1) / fp8_rows * fp8_rows : rows;
}

// Experts without rows have no GEMM. A weight gradient sums over an expert's rows.
std::vector<Expert> experts_of(const GroupedGemm& grouped) {
  std::vector<Expert> experts;
  Expert next;
  for (const std::int64_t filled : grouped.rows) {
    if (filled == 0) continue;
    next.gemm = gemm_of_expert(grouped, padded(grouped, filled));
    experts.push_back(next);
    // Tensor cores require operands that start at a multiple of 16 bytes.
    constexpr std::int64_t elements_aligned = 16;  // exact for fp8, more than enough for two bytes
    const auto after = [](std::int64_t begin, std::int64_t count) {
      return (begin + count + elements_aligned - 1) / elements_aligned * elements_aligned;
    };
    next.a = after(next.a, next.gemm.m * next.gemm.k);
    next.b = after(next.b, next.gemm.k * next.gemm.n);
    next.result = after(next.result, next.gemm.m * next.gemm.n);
  }
  // The last entry marks the end of the memory.
  experts.push_back(next);
  return experts;
}

// The operands of all experts, filled, and their results.
struct ExpertMemory {
  ExpertMemory(const Bench& bench, DataType dtype, const Expert& end)
      : a(end.a * static_cast<std::int64_t>(element_bytes(dtype))),
        b(end.b * static_cast<std::int64_t>(element_bytes(dtype))),
        result(end.result * static_cast<std::int64_t>(element_bytes(result_dtype(end.gemm)))) {
    const auto fill = [&](const DeviceMemory& into, std::int64_t elements, std::uint64_t seed) {
      check(fill_random({into.get(), elements, dtype, seed}, bench.watch.stream()),
            "filling operands");
    };
    fill(a, end.a, grouped_a_seed);
    fill(b, end.b, grouped_b_seed);
    // Gradients that are accumulated start at zero, so that one run leaves the GEMM's result alone.
    check(cudaMemsetAsync(result.get(), 0,
                          static_cast<std::size_t>(end.result) *
                              static_cast<std::size_t>(element_bytes(result_dtype(end.gemm))),
                          bench.watch.stream()),
          "clearing the results");
  }
  DeviceMemory a, b, result;
};

// One call of cuBLAS for all experts, in bf16 or fp16, with arrays that have one entry per expert.
class GroupedCall {
 public:
  GroupedCall(const Bench& bench, DataType dtype, const std::vector<Expert>& experts,
              const ExpertMemory& memory)
      : type_(dtype == DataType::Bf16 ? CUDA_R_16BF : CUDA_R_16F),
        count_(experts.size() - 1),
        pointers_(static_cast<std::int64_t>(3 * count_ * sizeof(void*))),
        ones_(count_, 1.0F),
        zeros_(count_, 0.0F),
        each_(count_, 1) {
    cublasHandle_t made = nullptr;
    check(cublasCreate(&made), "starting cuBLAS");
    handle_.reset(made);
    check(cublasSetStream(made, bench.watch.stream()), "choosing the stream");
    describe(experts, memory);
  }

  // cuBLAS is column-major: the row-major product A B is its B' A' (gemm_plan.cpp).
  void run() const {
    const auto* first = static_cast<const void* const*>(pointers_.get());
    auto* last = static_cast<void* const*>(pointers_.get()) + 2 * count_;
    check(cublasGemmGroupedBatchedEx(handle_.get(), first_turned_.data(), second_turned_.data(),
                                     n_.data(), m_.data(), k_.data(), ones_.data(), first, type_,
                                     first_step_.data(), first + count_, type_, second_step_.data(),
                                     zeros_.data(), last, type_, n_.data(),
                                     static_cast<int>(count_), each_.data(), CUBLAS_COMPUTE_32F),
          "multiplying");
  }

 private:
  void describe(const std::vector<Expert>& experts, const ExpertMemory& memory) {
    // First B of all experts, then A, then the results.
    std::vector<void*> places(3 * count_);
    for (std::size_t i = 0; i < count_; ++i) {
      const Expert& e = experts[i];
      const bool b_turned = reference::b_is_transposed(e.gemm);
      const bool a_turned = reference::a_is_transposed(e.gemm);
      first_turned_.push_back(b_turned ? CUBLAS_OP_T : CUBLAS_OP_N);
      second_turned_.push_back(a_turned ? CUBLAS_OP_T : CUBLAS_OP_N);
      m_.push_back(static_cast<int>(e.gemm.m));
      n_.push_back(static_cast<int>(e.gemm.n));
      k_.push_back(static_cast<int>(e.gemm.k));
      first_step_.push_back(b_turned ? k_.back() : n_.back());
      second_step_.push_back(a_turned ? m_.back() : k_.back());
      places[i] = memory.b.at(2 * e.b);
      places[count_ + i] = memory.a.at(2 * e.a);
      places[2 * count_ + i] = memory.result.at(2 * e.result);
    }
    // cuBLAS reads the addresses of the operands from GPU memory.
    check(cudaMemcpy(pointers_.get(), places.data(), places.size() * sizeof(void*),
                     cudaMemcpyHostToDevice),
          "copying the experts' places");
  }

  Cublas handle_;
  cudaDataType_t type_;
  std::size_t count_;
  DeviceMemory pointers_;
  // Alphas, betas and group sizes. Each expert is a group of one GEMM.
  std::vector<float> ones_, zeros_;
  std::vector<int> each_;
  std::vector<cublasOperation_t> first_turned_, second_turned_;
  std::vector<int> m_, n_, k_, first_step_, second_step_;
};

// One GEMM of cuBLASLt after another on one stream, as frameworks launch them, and for types for
// which cuBLAS has no grouped call. Each uses the heuristic's first algorithm for its shape.
class GemmsInTurn {
 public:
  GemmsInTurn(const Bench& bench, const std::vector<Expert>& experts, const ExpertMemory& memory) {
    for (std::size_t i = 0; i + 1 < experts.size(); ++i) {
      const Expert& e = experts[i];
      const auto width = static_cast<std::int64_t>(element_bytes(e.gemm.dtype));
      const auto result_width = static_cast<std::int64_t>(element_bytes(result_dtype(e.gemm)));
      // Experts of equal shape share a plan. Entries of a map keep their addresses.
      const GemmPlan& plan = plans_.try_emplace(e.gemm, bench, e.gemm).first->second;
      calls_.push_back({&plan,
                        {memory.a.at(width * e.a), memory.b.at(width * e.b),
                         memory.result.at(result_width * e.result)}});
    }
  }
  void run() const {
    for (const Call& call : calls_) call.plan->run(call.plan->algorithms().front(), call.operands);
  }

 private:
  struct Call {
    const GemmPlan* plan;
    GemmOperands operands;
  };
  std::map<Gemm, GemmPlan> plans_;
  std::vector<Call> calls_;
};

// Compares some entries of an expert's result with the CPU's.
void check_expert(const Expert& expert, const DeviceMemory& result) {
  const auto stored = [&expert](std::uint64_t seed, std::int64_t begin) {
    return [&expert, seed, begin](std::int64_t place) {
      return reference::rounded(expert.gemm.dtype,
                                static_cast<double>(random_value(seed, begin + place)));
    };
  };
  for (std::uint64_t i = 0; i < expert_entries_checked; ++i) {
    const auto draw = [i](std::uint64_t what, std::int64_t below) {
      return static_cast<std::int64_t>(mixed_bits(2 * i + what + 1) %
                                       static_cast<std::uint64_t>(below));
    };
    const reference::GemmEntry entry{0, draw(0, expert.gemm.m), draw(1, expert.gemm.n)};
    const double expected = reference::gemm_entry(
        expert.gemm, entry, stored(grouped_a_seed, expert.a), stored(grouped_b_seed, expert.b));
    const std::int64_t place = expert.result + reference::result_place(expert.gemm, entry);
    const double computed =
        read_stored(result, {.dtype = result_dtype(expert.gemm), .first = place, .count = 1})
            .front();
    if (!(std::abs(computed - expected) <= gemm_tolerance(expert.gemm, expected)))
      throw WrongResult(fmt::format("entry ({}, {}) of an expert is {}, the reference says {}",
                                    entry.row, entry.column, computed, expected));
  }
}

// Checks the result of one run, then times the call.
template <class Call>
MeasuredRow measured(const Bench& bench, const GroupedGemm& gemm, const Call& call,
                     const std::vector<Expert>& experts, const ExpertMemory& memory) {
  const auto run = [&call] { call.run(); };
  run();
  bench.watch.wait();
  // The first, a middle and the last expert. The last entry only marks the end of the memory.
  for (const std::size_t i : {std::size_t{0}, (experts.size() - 1) / 2, experts.size() - 2})
    check_expert(experts[i], memory.result);
  bench.watch.warm_up(run);
  return {gemm, spread_of(bench.watch.times_us(run, timed_runs)), ""};
}

}  // namespace

MeasuredRow measure_grouped(const Bench& bench, const GroupedGemm& gemm) {
  const std::vector<Expert> experts = experts_of(gemm);
  if (experts.size() == 1) throw Unsupported("no expert has a row");
  const ExpertMemory memory(bench, gemm.dtype, experts.back());
  MeasuredRow row{gemm, {}, {}};
  // cuBLAS has a grouped call for 16-bit types without accumulation only.
  const bool half = gemm.dtype == DataType::Bf16 || gemm.dtype == DataType::Fp16;
  if (half && !gemm.per_expert && !gemm.accumulate_fp32) {
    row = measured(bench, gemm, GroupedCall(bench, gemm.dtype, experts, memory), experts, memory);
    row.chosen = "cublasGemmGroupedBatchedEx, one call";
  } else {
    row = measured(bench, gemm, GemmsInTurn(bench, experts, memory), experts, memory);
    row.chosen = gemm.dtype == DataType::Fp8 ? "cuBLASLt, one GEMM after another, rows padded to 16"
                                             : "cuBLASLt, one GEMM after another";
  }
  return row;
}

}  // namespace trainyard::bench
