#include "models/lower/grouped_experts.hpp"

#include <iterator>

namespace trainyard {

// Rows that came in 16 bits, or were made in them, on their way into an 8-bit product and its
// weight gradient: 2 bytes read, 1 + 1 written.
void GroupedExperts::quantise_rows(std::string_view name, std::int64_t width) {
  if (!options_.experts.products_in_8_bits) return;
  elementwise_.memory_bound(name, MemoryBoundKind::Cast,
                            (shape_.element + 2) * rows().total() * width);
}

OpIndex GroupedExperts::grouped(std::string_view name, std::int64_t n, std::int64_t k,
                                GemmPass pass) {
  const Gemm one = linear_.product(1, n, k, pass);
  if (pass != GemmPass::WeightGrad) linear_.dequantise(name, std::ssize(rows().received) * n * k);
  return build_.compute(name,
                        GroupedGemm{.rows = rows().received,
                                    .n = n,
                                    .k = k,
                                    .dtype = one.dtype,
                                    .pass = pass,
                                    .accumulate_fp32 = one.accumulate_fp32,
                                    .per_expert = settings_.products != ExpertProducts::OneLaunch});
}

void GroupedExperts::kernel(std::string_view name, std::int64_t bytes, std::int64_t launches) {
  build_.compute(
      name,
      MemoryBound{.kind = MemoryBoundKind::Elementwise, .bytes = bytes, .launches = launches});
}

void GroupedExperts::activate() {
  if (fused()) return;
  const std::int64_t up = arch_.ffn_inputs() * rows().total() * inner_;
  if (arch_.clamped_experts) kernel("expert_clamp", 4 * shape_.element * up, 3);
  elementwise_.activation_forward("expert_activation", rows().total() * inner_);
}

void GroupedExperts::activate_backward() {
  if (fused()) return;
  elementwise_.activation_backward("expert_activation_backward", rows().total() * inner_);
  if (!arch_.clamped_experts) return;
  const std::int64_t half = rows().total() * inner_;
  const std::int64_t gate = 3 * shape_.element + 2;
  const std::int64_t up = 4 * shape_.element + 6;
  kernel("expert_clamp_backward", half * (gate + up + 2 * 2 * shape_.element), 7);
}

// A product and a sum for each expert, then all of them joined and cast.
void GroupedExperts::add_biases() {
  if (!arch_.biases || fused()) return;
  kernel("expert_bias", (2 * shape_.element + 6 * kFp32Bytes) * rows().total() * arch_.hidden,
         2 * std::ssize(rows().received) + 2);
}

void GroupedExperts::add_biases_backward() {
  if (!arch_.biases || fused()) return;
  kernel("expert_bias_backward",
         (4 * shape_.element + 8 * kFp32Bytes) * rows().total() * arch_.hidden,
         5 * std::ssize(rows().received) + 2);
}

void GroupedExperts::forward() {
  exchange_.sort_rows("expert_sort");
  exchange_.join_expert_tensor("expert_tensor_all_gather", CollectiveOp::AllGather);
  const bool arrive_in_8_bits = settings_.dispatch_precision == DataType::Fp8;
  if (!arrive_in_8_bits) quantise_rows("expert_up_quantise", arch_.hidden);
  grouped("expert_up_gemm", arch_.ffn_inputs() * inner_, arch_.hidden, GemmPass::Forward);
  activate();
  if (!fused()) quantise_rows("expert_down_input_quantise", inner_);
  grouped("expert_down_gemm", arch_.hidden, inner_, GemmPass::Forward);
  add_biases();
  exchange_.join_expert_tensor("expert_tensor_reduce_scatter", CollectiveOp::ReduceScatter);
  exchange_.sort_rows("expert_unsort");
}

ExpertGradients GroupedExperts::backward(BackwardPart part) {
  const bool full = part == BackwardPart::Full && !linear_.frozen();
  ExpertGradients final_at;
  const std::int64_t columns = arch_.ffn_inputs() * inner_;
  exchange_.sort_rows("expert_unsort_backward");
  exchange_.join_expert_tensor("expert_tensor_gradient_all_gather", CollectiveOp::AllGather);
  add_biases_backward();
  if (options_.again.expert_activation && !options_.again.experts) {
    tools_.repeat([this] { activate(); });
  }
  if (settings_.dispatch_precision != DataType::Fp8)
    quantise_rows("expert_down_quantise", arch_.hidden);
  grouped("expert_down_dgrad", inner_, arch_.hidden, GemmPass::DataGrad);
  if (full)
    final_at.down = grouped("expert_down_wgrad", arch_.hidden, inner_, GemmPass::WeightGrad);
  activate_backward();
  if (!fused()) quantise_rows("expert_up_gradient_quantise", columns);
  grouped("expert_up_dgrad", arch_.hidden, columns, GemmPass::DataGrad);
  if (full) final_at.up = grouped("expert_up_wgrad", columns, arch_.hidden, GemmPass::WeightGrad);
  exchange_.join_expert_tensor("expert_tensor_gradient_reduce_scatter",
                               CollectiveOp::ReduceScatter);
  exchange_.sort_rows("expert_sort_backward");
  return final_at;
}

ExpertGradients GroupedExperts::weight_backward() {
  ExpertGradients final_at;
  final_at.down = grouped("expert_down_wgrad", arch_.hidden, inner_, GemmPass::WeightGrad);
  final_at.up =
      grouped("expert_up_wgrad", arch_.ffn_inputs() * inner_, arch_.hidden, GemmPass::WeightGrad);
  return final_at;
}

}  // namespace trainyard
