// The feed-forward block of a layer with experts, of one rank: router, dispatch, grouped products,
// combine, and the experts that every token sees (expert_exchange.hpp, grouped_experts.hpp).
#include "models/lower/grouped_experts.hpp"
#include "models/lower/layer_block.hpp"

namespace trainyard {

namespace {

// Scores of all experts, then the best K. In the precision of training, whatever the recipe
// multiplies the others in.
class ExpertRouter : BlockWriter {
 public:
  explicit ExpertRouter(LayerTools& tools) : BlockWriter(tools) {}

  void forward();
  void backward();
  OpIndex weight_backward();

 private:
  [[nodiscard]] Gemm product(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const;
};

Gemm ExpertRouter::product(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const {
  Gemm gemm = linear_.product(m, n, k, pass);
  gemm.dtype = shape_.dtype;
  return gemm;
}

// Reads the scores, writes them as fp32 probabilities and reads those, writes a number and an index
// for each of the K.
void ExpertRouter::forward() {
  build_.compute("router_gemm",
                 product(shape_.local_tokens, arch_.experts, arch_.hidden, GemmPass::Forward));
  elementwise_.memory_bound(
      "router_top_k", MemoryBoundKind::Softmax,
      shape_.local_tokens * ((shape_.element + 2 * kFp32Bytes) * arch_.experts +
                             2 * kFp32Bytes * arch_.experts_per_token));
}

void ExpertRouter::backward() {
  elementwise_.memory_bound(
      "router_top_k_backward", MemoryBoundKind::Softmax,
      shape_.local_tokens * (shape_.element + 2 * kFp32Bytes) * arch_.experts);
  build_.compute("router_dgrad",
                 product(shape_.local_tokens, arch_.hidden, arch_.experts, GemmPass::DataGrad));
}

OpIndex ExpertRouter::weight_backward() {
  return build_.compute("router_wgrad", product(arch_.experts, arch_.hidden, shape_.local_tokens,
                                                GemmPass::WeightGrad));
}

// The experts that every token sees; most models have none.
class SharedExperts : BlockWriter {
 public:
  explicit SharedExperts(LayerTools& tools)
      : BlockWriter(tools), width_(arch_.shared_ffn / shape_.tensor) {}

  [[nodiscard]] bool any() const { return arch_.shared_ffn > 0; }
  void forward();
  void add();  // their output to that of the others
  ExpertGradients backward(BackwardPart part);

 private:
  const std::int64_t width_;  // on this rank
};

void SharedExperts::forward() {
  if (!any()) return;
  const std::int64_t tokens = shape_.tokens;
  tensor_.gather_sequence("shared_all_gather");
  linear_.dequantise("shared_up", arch_.ffn_inputs() * width_ * arch_.hidden);
  build_.compute("shared_up_gemm", linear_.product(tokens, arch_.ffn_inputs() * width_,
                                                   arch_.hidden, GemmPass::Forward));
  elementwise_.activation_forward("shared_activation", tokens * width_);
  linear_.dequantise("shared_down", width_ * arch_.hidden);
  build_.compute("shared_down_gemm",
                 linear_.product(tokens, arch_.hidden, width_, GemmPass::Forward));
  tensor_.join_partial_sums("shared_join");
}

void SharedExperts::add() {
  if (!any()) return;
  elementwise_.memory_bound("shared_add", MemoryBoundKind::Elementwise,
                            3 * shape_.element * shape_.local_tokens * arch_.hidden);
}

ExpertGradients SharedExperts::backward(BackwardPart part) {
  if (!any()) return {};
  const bool inputs = part != BackwardPart::Weight;
  if (inputs && options_.again.shared_experts && !options_.again.experts)
    tools_.repeat([this] { forward(); });
  ExpertGradients final_at;
  final_at.down = tensor_.row_backward("shared_down", width_, part);
  if (inputs)
    elementwise_.activation_backward("shared_activation_backward", shape_.tokens * width_);
  final_at.up = tensor_.column_backward(
      {.name = "shared_up", .outputs = arch_.ffn_inputs() * width_, .matrices = arch_.ffn_inputs()},
      part);
  return final_at;
}

class Experts : BlockWriter {
 public:
  explicit Experts(LayerTools& tools)
      : BlockWriter(tools),
        settings_(options_.experts.settings),
        router_(tools),
        exchange_(tools),
        grouped_(tools, exchange_),
        shared_(tools) {}

  void forward();  // from the norm's output to what is added to the residual
  std::vector<ReadyGradient> backward(BackwardPart part);

 private:
  using Way = ExpertExchange::Way;
  struct Final {
    ExpertGradients grouped;
    ExpertGradients shared;
    OpIndex router = kNone;
  };
  Final input_part(BackwardPart part);
  Final weight_part();

  const ExpertSettings& settings_;
  ExpertRouter router_;
  ExpertExchange exchange_;
  GroupedExperts grouped_;
  SharedExperts shared_;
};

void Experts::forward() {
  router_.forward();
  exchange_.cast_rows("dispatch_cast");
  exchange_.permute("permute");
  exchange_.tell_counts();
  const OpIndex dispatched =
      exchange_.travel("dispatch", Way::ToExperts, settings_.dispatch_precision);
  if (settings_.overlap_shared) shared_.forward();
  build_.wait_for(dispatched);
  grouped_.forward();
  build_.wait_for(exchange_.travel("combine", Way::ToTokens, shape_.dtype));
  exchange_.permute("unpermute");
  exchange_.gather_tokens("expert_output_all_gather", arch_.hidden * shape_.element);
  if (!settings_.overlap_shared) shared_.forward();
  shared_.add();
}

Experts::Final Experts::input_part(BackwardPart part) {
  if (options_.again.norms) tools_.repeat([this] { elementwise_.norm_forward("ffn_norm"); });
  if (options_.again.experts) tools_.repeat([this] { forward(); });
  Final final_at;
  exchange_.cast_rows("combine_gradient_cast");
  exchange_.permute("unpermute_backward");
  const OpIndex combined =
      exchange_.travel("combine_backward", Way::ToExperts, settings_.dispatch_precision);
  if (settings_.overlap_shared) final_at.shared = shared_.backward(part);
  build_.wait_for(combined);
  final_at.grouped = grouped_.backward(part);
  build_.wait_for(exchange_.travel("dispatch_backward", Way::ToTokens, shape_.dtype));
  exchange_.permute("permute_backward");
  exchange_.gather_tokens("expert_input_gradient_all_gather",
                          arch_.hidden * shape_.element + kFp32Bytes * arch_.experts_per_token);
  if (!settings_.overlap_shared) final_at.shared = shared_.backward(part);
  router_.backward();
  if (part == BackwardPart::Full && !linear_.frozen()) final_at.router = router_.weight_backward();
  return final_at;
}

Experts::Final Experts::weight_part() {
  if (linear_.frozen()) return {};
  const ExpertGradients grouped = grouped_.weight_backward();
  const ExpertGradients shared = shared_.backward(BackwardPart::Weight);
  return {.grouped = grouped, .shared = shared, .router = router_.weight_backward()};
}

// In the order of layer_entries (chunk_weights.hpp), those of experts marked as such. Beside
// adapters nothing of it is trained: the entries are empty, and final with whatever came last.
std::vector<ReadyGradient> Experts::backward(BackwardPart part) {
  const Final final_at = part == BackwardPart::Weight ? weight_part() : input_part(part);
  const bool frozen = linear_.frozen();
  const OpIndex last = build_.last_compute();
  std::vector<ReadyGradient> ready;
  if (!frozen) {
    ready.push_back({.op = final_at.grouped.down, .expert = true});
    ready.push_back({.op = final_at.grouped.up, .expert = true});
  }
  if (shared_.any()) {
    ready.push_back({.op = frozen ? last : final_at.shared.down});
    ready.push_back({.op = frozen ? last : final_at.shared.up});
  }
  ready.push_back({.op = frozen ? last : final_at.router});
  return ready;
}

}  // namespace

LayerBlockKind experts_block() {
  return {.name = "experts",
          .half = LayerHalf::FeedForward,
          .is_at = [](const Architecture& a,
                      std::int64_t layer) { return a.kind_of(layer) == LayerKind::Moe; },
          .forward = [](LayerTools& tools) { Experts(tools).forward(); },
          .backward = [](LayerTools& tools,
                         BackwardPart part) { return Experts(tools).backward(part); }};
}

}  // namespace trainyard
