#include <fmt/format.h>

#include <array>
#include <cmath>

#include "kernels/bench/attention_check.hpp"
#include "kernels/bench/attention_graph.hpp"
#include "kernels/bench/measure.hpp"
#include "kernels/bench/measured_profile.hpp"
#include "kernels/bench/row_kernels.hpp"

namespace trainyard::bench {

namespace {

constexpr std::int64_t half_bytes = 2;  // bf16 and fp16
constexpr std::int64_t fp32_bytes = 4;

std::int64_t queries(const Attention& a) { return a.batch * a.query_heads * a.query_length; }
std::int64_t keys(const Attention& a) { return a.batch * a.kv_heads * a.kv_length; }
// One byte where there are no gradients.
std::int64_t only_backward(const Attention& a, std::int64_t bytes) {
  return a.backward ? bytes : 1;
}

// The operands and results of one attention. Buffers that it does not need have one byte.
struct AttentionMemory {
  explicit AttentionMemory(const Attention& a)
      : q(queries(a) * a.head_dim_qk * half_bytes),
        k(keys(a) * a.head_dim_qk * half_bytes),
        v(keys(a) * a.head_dim_v * half_bytes),
        result(queries(a) * a.head_dim_v * half_bytes),
        log_sum(queries(a) * fp32_bytes),
        result_gradient(only_backward(a, static_cast<std::int64_t>(result.bytes()))),
        q_gradient(only_backward(a, static_cast<std::int64_t>(q.bytes()))),
        k_gradient(only_backward(a, static_cast<std::int64_t>(k.bytes()))),
        v_gradient(only_backward(a, static_cast<std::int64_t>(v.bytes()))),
        q_sum(only_backward(a, queries(a) * a.head_dim_qk * fp32_bytes)),
        k_shares(only_backward(a, shares(a) * a.head_dim_qk)),
        v_shares(only_backward(a, shares(a) * a.head_dim_v)) {}
  // With grouped heads, gradients of keys and values are computed per query head and then summed.
  static std::int64_t shares(const Attention& a) {
    return a.query_heads == a.kv_heads ? 1 : a.batch * a.query_heads * a.kv_length * half_bytes;
  }
  DeviceMemory q, k, v, result, log_sum;
  DeviceMemory result_gradient, q_gradient, k_gradient, v_gradient, q_sum, k_shares, v_shares;
};

void fill(const Bench& bench, const Attention& a, const AttentionMemory& memory) {
  const auto random = [&](const DeviceMemory& into, std::uint64_t seed) {
    const auto count = static_cast<std::int64_t>(into.bytes()) / half_bytes;
    check(fill_random({into.get(), count, a.dtype, seed}, bench.watch.stream()),
          "filling operands");
  };
  random(memory.q, attention_seeds.q);
  random(memory.k, attention_seeds.k);
  random(memory.v, attention_seeds.v);
  if (a.backward) random(memory.result_gradient, attention_seeds.result_gradient);
}

class ForwardCall {
 public:
  ForwardCall(cudnnHandle_t handle, const Attention& a, const AttentionMemory& m)
      : handle_(handle),
        asked_(forward_attention(a)),
        plan_(asked_.graph, handle),
        workspace_(std::max<std::int64_t>(plan_.workspace_bytes(), 1)),
        places_{{asked_.q, m.q.get()},
                {asked_.k, m.k.get()},
                {asked_.v, m.v.get()},
                {asked_.result, m.result.get()},
                {asked_.log_sum, m.log_sum.get()}} {}
  void run() const { plan_.run(handle_, places_, workspace_.get()); }
  [[nodiscard]] const std::string& engine() const { return plan_.engine(); }

 private:
  cudnnHandle_t handle_;
  ForwardAttention asked_;
  CudnnPlan plan_;
  DeviceMemory workspace_;
  std::map<CudnnGraph::Tensor, void*> places_;
};

class BackwardCall {
 public:
  BackwardCall(const Bench& bench, cudnnHandle_t handle, const Attention& a,
               const AttentionMemory& m)
      : stream_(bench.watch.stream()),
        handle_(handle),
        asked_(backward_attention(a)),
        plan_(asked_.graph, handle),
        workspace_(std::max<std::int64_t>(plan_.workspace_bytes(), 1)),
        q_sum_(m.q_sum),
        places_{{asked_.q, m.q.get()},
                {asked_.k, m.k.get()},
                {asked_.v, m.v.get()},
                {asked_.result, m.result.get()},
                {asked_.log_sum, m.log_sum.get()},
                {asked_.result_gradient, m.result_gradient.get()},
                {asked_.q_gradient, m.q_gradient.get()},
                {asked_.k_gradient, m.k_gradient.get()},
                {asked_.v_gradient, m.v_gradient.get()},
                {asked_.q_sum, m.q_sum.get()}} {
    if (asked_.k_shares != 0) places_[asked_.k_shares] = m.k_shares.get();
    if (asked_.v_shares != 0) places_[asked_.v_shares] = m.v_shares.get();
  }
  // The time includes the zeroing, because every backward needs it.
  void run() const {
    check(cudaMemsetAsync(q_sum_.get(), 0, q_sum_.bytes(), stream_), "clearing a sum");
    plan_.run(handle_, places_, workspace_.get());
  }
  [[nodiscard]] const std::string& engine() const { return plan_.engine(); }

 private:
  cudaStream_t stream_;
  cudnnHandle_t handle_;
  BackwardAttention asked_;
  CudnnPlan plan_;
  DeviceMemory workspace_;
  const DeviceMemory& q_sum_;
  std::map<CudnnGraph::Tensor, void*> places_;
};

}  // namespace

std::string cudnn_version() {
  constexpr std::size_t major = 10'000, minor = 100;  // the format of CUDNN_VERSION
  const std::size_t version = cudnnGetVersion();
  return fmt::format("{}.{}.{}", version / major, version % major / minor, version % minor);
}

// The forward runs in any case: the backward reads its output and its log-sum-exp. Results are
// checked before they are timed.
MeasuredRow measure_attention(const Bench& bench, const Attention& a) {
  if (const auto reason = unfit_for_cudnn(a)) throw Unsupported(*reason);
  const CudnnHandle handle = make_cudnn(bench.watch.stream());
  const AttentionMemory memory(a);
  fill(bench, a, memory);
  const ForwardCall forward(handle.get(), a, memory);
  forward.run();
  bench.watch.wait();
  const AttentionResults results{.result = memory.result,
                                 .log_sum = &memory.log_sum,
                                 .q_gradient = &memory.q_gradient,
                                 .k_gradient = &memory.k_gradient,
                                 .v_gradient = &memory.v_gradient};
  check_attention(a, results);
  const auto timed = [&](const auto& call) {
    const auto run = [&call] { call.run(); };
    run();
    bench.watch.wait();
    if (a.backward) check_attention_gradients(a, results);
    bench.watch.warm_up(run);
    return MeasuredRow{a, spread_of(bench.watch.times_us(run, timed_runs)),
                       fmt::format("cuDNN {}, {}", cudnn_version(), call.engine())};
  };
  if (!a.backward) return timed(forward);
  return timed(BackwardCall(bench, handle.get(), a, memory));
}

}  // namespace trainyard::bench
