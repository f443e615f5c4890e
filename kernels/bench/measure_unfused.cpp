#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/bench/attention_check.hpp"
#include "kernels/bench/gemm_plan.hpp"
#include "kernels/bench/measure.hpp"
#include "kernels/bench/measured_profile.hpp"
#include "kernels/bench/row_kernels.hpp"

namespace trainyard::bench {

namespace {

// A batched GEMM of attention, with the first algorithm of cuBLASLt's heuristic.
class HeadGemm {
 public:
  HeadGemm(const Bench& bench, const Gemm& gemm) : plan_(bench, gemm) {}
  void run(const DeviceMemory& a, const DeviceMemory& b, const DeviceMemory& into) const {
    plan_.run(plan_.algorithms().front(), {a.get(), b.get(), into.get()});
  }

 private:
  GemmPlan plan_;
};

// All heads of all sequences form one batch; the rows of each head are contiguous.
struct UnfusedMemory {
  UnfusedMemory(const Attention& a, std::int64_t heads)
      : q(heads * a.query_length * a.head_dim_qk * 2),
        k(heads * a.kv_length * a.head_dim_qk * 2),
        v(heads * a.kv_length * a.head_dim_v * 2),
        result(heads * a.query_length * a.head_dim_v * 2),
        result_gradient(static_cast<std::int64_t>(result.bytes())),
        q_gradient(static_cast<std::int64_t>(q.bytes())),
        k_gradient(static_cast<std::int64_t>(k.bytes())),
        v_gradient(static_cast<std::int64_t>(v.bytes())),
        scores(heads * a.query_length * a.kv_length * 2),
        weights(static_cast<std::int64_t>(scores.bytes())) {}
  DeviceMemory q, k, v, result, result_gradient, q_gradient, k_gradient, v_gradient;
  DeviceMemory scores, weights;  // the memory of the scores also holds their gradient
};

// Attention as separate kernels: two GEMMs around a softmax, and in the backward four GEMMs around
// its gradient.
class UnfusedCall {
 public:
  UnfusedCall(const Bench& bench, const Attention& a)
      : stream_(bench.watch.stream()),
        heads_(a.batch * a.query_heads),
        a_(a),
        memory_(a, heads_),
        scores_(bench, gemm(a.query_length, a.kv_length, a.head_dim_qk, GemmPass::Forward)),
        result_(bench, gemm(a.query_length, a.head_dim_v, a.kv_length, GemmPass::DataGrad)),
        weights_(bench, gemm(a.query_length, a.kv_length, a.head_dim_v, GemmPass::Forward)),
        q_(bench, gemm(a.query_length, a.head_dim_qk, a.kv_length, GemmPass::DataGrad)),
        k_(bench, gemm(a.kv_length, a.head_dim_qk, a.query_length, GemmPass::WeightGrad)),
        v_(bench, gemm(a.kv_length, a.head_dim_v, a.query_length, GemmPass::WeightGrad)) {
    const auto random = [this](const DeviceMemory& into, std::uint64_t seed) {
      const auto count = static_cast<std::int64_t>(into.bytes()) / 2;
      check(fill_random({into.get(), count, a_.dtype, seed}, stream_), "filling operands");
    };
    random(memory_.q, attention_seeds.q);
    random(memory_.k, attention_seeds.k);
    random(memory_.v, attention_seeds.v);
    random(memory_.result_gradient, attention_seeds.result_gradient);
  }

  void forward() const {
    scores_.run(memory_.q, memory_.k, memory_.scores);
    check(launch_attention_weights({.scores = memory_.scores.get(),
                                    .weights = memory_.weights.get(),
                                    .rows = heads_ * a_.query_length,
                                    .columns = a_.kv_length,
                                    .rows_of_head = a_.query_length,
                                    .scale = scale(),
                                    .causal = a_.causal},
                                   stream_),
          "weighing scores");
    result_.run(memory_.weights, memory_.v, memory_.result);
  }

  // Needs the weights that forward() computed.
  void backward() const {
    v_.run(memory_.weights, memory_.result_gradient, memory_.v_gradient);
    weights_.run(memory_.result_gradient, memory_.v, memory_.scores);
    check(launch_attention_weights_gradient({.weights = memory_.weights.get(),
                                             .gradient = memory_.scores.get(),
                                             .result = memory_.scores.get(),
                                             .rows = heads_ * a_.query_length,
                                             .columns = a_.kv_length,
                                             .scale = scale()},
                                            stream_),
          "weighing gradients");
    q_.run(memory_.scores, memory_.k, memory_.q_gradient);
    k_.run(memory_.scores, memory_.q, memory_.k_gradient);
  }

  // The attention in the form of the reference: contiguous heads are sequences of one head.
  [[nodiscard]] Attention as_sequences() const {
    Attention apart = a_;
    apart.batch = heads_;
    apart.query_heads = apart.kv_heads = 1;
    return apart;
  }
  [[nodiscard]] AttentionResults results() const {
    return {.result = memory_.result,
            .q_gradient = &memory_.q_gradient,
            .k_gradient = &memory_.k_gradient,
            .v_gradient = &memory_.v_gradient};
  }

 private:
  // The pass selects only the layout of the operands: Forward is TN (Q K^T), DataGrad is NN
  // (weights times V), WeightGrad is NT.
  [[nodiscard]] Gemm gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const {
    return {.m = m, .n = n, .k = k, .batch = heads_, .dtype = a_.dtype, .pass = pass};
  }
  [[nodiscard]] float scale() const { return 1.0F / std::sqrt(static_cast<float>(a_.head_dim_qk)); }

  cudaStream_t stream_;
  std::int64_t heads_;
  Attention a_;
  UnfusedMemory memory_;
  HeadGemm scores_, result_, weights_, q_, k_, v_;
};

void refuse_unfit(const Attention& a) {
  if (a.dtype != DataType::Bf16) throw Unsupported("unfused attention is measured in bf16 only");
  if (a.query_heads != a.kv_heads)
    throw Unsupported("unfused attention is measured with as many key heads as query heads");
  if (!a.causal || a.query_length != a.kv_length ||
      a.pairs != a.query_length * (a.query_length + 1) / 2)
    throw Unsupported("unfused attention is measured causal, over whole sequences");
  if (a.kv_length % 8 != 0 || a.kv_length > row_columns_most)
    throw Unsupported("unfused rows must be divisible by 8 and at most 16384 long");
}

}  // namespace

MeasuredRow measure_unfused(const Bench& bench, const UnfusedAttention& task) {
  const Attention& a = task.attention;
  refuse_unfit(a);
  const UnfusedCall call(bench, a);
  call.forward();
  bench.watch.wait();
  check_attention(call.as_sequences(), call.results());
  const auto run = [&] { a.backward ? call.backward() : call.forward(); };
  run();
  bench.watch.wait();
  if (a.backward) check_attention_gradients(call.as_sequences(), call.results());
  bench.watch.warm_up(run);
  return {task, spread_of(bench.watch.times_us(run, timed_runs)), "cuBLASLt and own kernels"};
}

}  // namespace trainyard::bench
