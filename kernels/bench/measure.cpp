#include "kernels/bench/measure.hpp"

namespace trainyard::bench {

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
