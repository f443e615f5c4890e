#include <cublas_v2.h>
#include <fmt/format.h>

#include <algorithm>

#include "kernels/bench/gemm_plan.hpp"
#include "kernels/bench/protocol.hpp"
#include "kernels/bench/random_value.hpp"
#include "kernels/bench/row_kernels.hpp"
#include "kernels/bench/stored.hpp"
#include "kernels/reference/gemm.hpp"
#include "kernels/reference/number_formats.hpp"

namespace trainyard::bench {

namespace {

constexpr std::uint64_t a_seed = 8;
constexpr std::uint64_t b_seed = 9;
constexpr int entries_checked = 8;  // of each expert that is looked at

struct DestroyCublas {
  void operator()(cublasHandle_t handle) const { (void)cublasDestroy(handle); }
};
using Cublas = std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, DestroyCublas>;

// One expert's product and where its operands begin in the memory of all.
struct Expert {
  Gemm gemm;
  std::int64_t a = 0, b = 0, result = 0;  // elements
};

// Experts without rows have no product. A weight gradient multiplies over an expert's rows.
std::vector<Expert> experts_of(const GroupedGemm& grouped) {
  std::vector<Expert> experts;
  Expert next;
  for (const std::int64_t rows : grouped.rows) {
    if (rows == 0) continue;
    const bool weight = grouped.pass == GemmPass::WeightGrad;
    next.gemm = {.m = weight ? grouped.n : rows,
                 .n = weight ? grouped.k : grouped.n,
                 .k = weight ? rows : grouped.k,
                 .dtype = grouped.dtype,
                 .pass = grouped.pass};
    experts.push_back(next);
    // 16 bytes: what tensor cores want of an operand's beginning.
    constexpr std::int64_t elements_aligned = 8;
    const auto after = [](std::int64_t begin, std::int64_t count) {
      return (begin + count + elements_aligned - 1) / elements_aligned * elements_aligned;
    };
    next.a = after(next.a, next.gemm.m * next.gemm.k);
    next.b = after(next.b, next.gemm.k * next.gemm.n);
    next.result = after(next.result, next.gemm.m * next.gemm.n);
  }
  // The last one's end, for the sizes of the memory.
  experts.push_back(next);
  return experts;
}

// The arrays that cuBLAS takes, one entry for each expert.
class GroupedCall {
 public:
  GroupedCall(const Bench& bench, DataType dtype, const std::vector<Expert>& experts)
      : type_(dtype == DataType::Bf16 ? CUDA_R_16BF : CUDA_R_16F),
        count_(experts.size() - 1),
        a_(2 * experts.back().a),
        b_(2 * experts.back().b),
        result_(2 * experts.back().result),
        pointers_(static_cast<std::int64_t>(3 * count_ * sizeof(void*))),
        ones_(count_, 1.0F),
        zeros_(count_, 0.0F),
        each_(count_, 1) {
    cublasHandle_t made = nullptr;
    check(cublasCreate(&made), "starting cuBLAS");
    handle_.reset(made);
    check(cublasSetStream(made, bench.watch.stream()), "choosing the stream");
    const auto fill = [&bench, dtype](const DeviceMemory& into, std::uint64_t seed) {
      const auto elements = static_cast<std::int64_t>(into.bytes() / 2);
      check(fill_random({into.get(), elements, dtype, seed}, bench.watch.stream()),
            "filling operands");
    };
    fill(a_, a_seed);
    fill(b_, b_seed);
    describe(experts);
  }

  // cuBLAS counts column-major: the row-major product A B is its B' A' (gemm_plan.cpp).
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

  [[nodiscard]] const DeviceMemory& result() const { return result_; }

 private:
  void describe(const std::vector<Expert>& experts) {
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
      places[i] = b_.at(2 * e.b);
      places[count_ + i] = a_.at(2 * e.a);
      places[2 * count_ + i] = result_.at(2 * e.result);
    }
    check(cudaMemcpy(pointers_.get(), places.data(), places.size() * sizeof(void*),
                     cudaMemcpyHostToDevice),
          "copying the experts' places");
  }

  Cublas handle_;
  cudaDataType_t type_;
  std::size_t count_;
  DeviceMemory a_, b_, result_, pointers_;
  std::vector<float> ones_, zeros_;
  std::vector<int> each_;
  std::vector<cublasOperation_t> first_turned_, second_turned_;
  std::vector<int> m_, n_, k_, first_step_, second_step_;
};

void check_expert(const Expert& expert, const DeviceMemory& result) {
  const auto stored = [&expert](std::uint64_t seed, std::int64_t begin) {
    return [&expert, seed, begin](std::int64_t place) {
      return reference::rounded(expert.gemm.dtype,
                                static_cast<double>(random_value(seed, begin + place)));
    };
  };
  for (std::uint64_t i = 0; i < entries_checked; ++i) {
    const auto draw = [i](std::uint64_t what, std::int64_t below) {
      return static_cast<std::int64_t>(mixed_bits(2 * i + what + 1) %
                                       static_cast<std::uint64_t>(below));
    };
    const reference::GemmEntry entry{0, draw(0, expert.gemm.m), draw(1, expert.gemm.n)};
    const double expected = reference::gemm_entry(expert.gemm, entry, stored(a_seed, expert.a),
                                                  stored(b_seed, expert.b));
    const std::int64_t place = expert.result + reference::result_place(expert.gemm, entry);
    const double computed =
        read_stored(result, {.dtype = expert.gemm.dtype, .first = place, .count = 1}).front();
    if (!(std::abs(computed - expected) <= product_tolerance(expert.gemm, expected)))
      throw WrongResult(fmt::format("entry ({}, {}) of an expert is {}, the reference says {}",
                                    entry.row, entry.column, computed, expected));
  }
}

}  // namespace

MeasuredRow measure_grouped(const Bench& bench, const GroupedGemm& gemm) {
  if (gemm.dtype != DataType::Bf16 && gemm.dtype != DataType::Fp16)
    throw Unsupported("cuBLAS has grouped products of bf16 and fp16 only");
  const std::vector<Expert> experts = experts_of(gemm);
  if (experts.size() == 1) throw Unsupported("no expert has a row");
  const GroupedCall call(bench, gemm.dtype, experts);
  const auto run = [&call] { call.run(); };
  run();
  bench.watch.wait();
  for (const std::size_t i : {std::size_t{0}, (experts.size() - 1) / 2, experts.size() - 2})
    check_expert(experts[i], call.result());
  bench.watch.warm_up(run);
  return {gemm, spread_of(bench.watch.times_us(run, timed_runs)), ""};
}

}  // namespace trainyard::bench
