// The feed-forward block of a layer without experts.
#include <array>

#include "models/lower/layer.hpp"

namespace trainyard {

namespace {

class FeedForward : BlockWriter {
 public:
  explicit FeedForward(LayerTools& tools) : BlockWriter(tools) {}

  void forward();
  std::vector<ReadyGradient> backward(BackwardPart part);
  void second_products();

 private:
  using Weights = std::array<OpIndex, 2>;  // where their gradients are final
  [[nodiscard]] ColumnLayer up_layer() const {
    return {.name = "ffn_up",
            .outputs = arch_.ffn_inputs() * (arch_.ffn / shape_.tensor),
            .matrices = arch_.ffn_inputs()};
  }
  Weights weight_part();
  Weights input_part(BackwardPart part);
  void matrices();
  void up_forward();
  void down_forward();
};

// A layer that is checkpointed alone does not run its last product again, unless a norm reads it.
void FeedForward::forward() {
  up_forward();
  if (!tools_.ends_early() || arch_.post_norms) down_forward();
}

void FeedForward::matrices() {
  up_forward();
  down_forward();
}

void FeedForward::up_forward() {
  const std::int64_t local_ffn = arch_.ffn / shape_.tensor;
  linear_.prepare("ffn_up", arch_.ffn_inputs() * arch_.hidden * local_ffn,
                  shape_.tokens * arch_.hidden, Rows::Gathered);
  tensor_.column_forward(
      "ffn_all_gather", "ffn_up_gemm",
      linear_.product(shape_.tokens, up_layer().outputs, arch_.hidden, GemmPass::Forward));
  linear_.adapters_forward("ffn_up");
  elementwise_.activation_forward("ffn_activation", shape_.tokens * local_ffn);
}

void FeedForward::down_forward() {
  const std::int64_t local_ffn = arch_.ffn / shape_.tensor;
  linear_.prepare("ffn_down", arch_.hidden * local_ffn, shape_.tokens * local_ffn);
  linear_.adapters_forward("ffn_down");
  tensor_.row_forward("ffn_join", "ffn_down_gemm",
                      linear_.product(shape_.tokens, arch_.hidden, local_ffn, GemmPass::Forward));
}

// Up and the activation; gate and down were kept.
void FeedForward::second_products() {
  const std::int64_t local_ffn = arch_.ffn / shape_.tensor;
  tensor_.column_forward(
      "ffn_all_gather", "ffn_up_gemm",
      linear_.product(shape_.tokens, local_ffn, arch_.hidden, GemmPass::Forward));
  elementwise_.activation_forward("ffn_activation", shape_.tokens * local_ffn);
}

FeedForward::Weights FeedForward::weight_part() {
  const std::int64_t local_ffn = arch_.ffn / shape_.tensor;
  const OpIndex gradient = tensor_.gather_gradient("ffn_down");
  const OpIndex input = tensor_.gather_input(up_layer());
  build_.wait_for(gradient);
  const OpIndex down = tensor_.row_wgrad("ffn_down", local_ffn);
  build_.wait_for(input);
  const OpIndex up = tensor_.column_wgrad(up_layer());
  return {down, up};
}

FeedForward::Weights FeedForward::input_part(BackwardPart part) {
  const std::int64_t local_ffn = arch_.ffn / shape_.tensor;
  if (options_.again.norms) tools_.repeat([this] { elementwise_.norm_forward("ffn_norm"); });
  if (options_.again.feed_forward) tools_.repeat([this] { matrices(); });
  const OpIndex down = tensor_.row_backward("ffn_down", local_ffn, part);
  elementwise_.activation_backward("ffn_activation_backward", shape_.tokens * local_ffn);
  const OpIndex up = tensor_.column_backward(up_layer(), part);
  return {down, up};
}

std::vector<ReadyGradient> FeedForward::backward(BackwardPart part) {
  std::vector<ReadyGradient> ready;
  for (const OpIndex op : part == BackwardPart::Weight ? weight_part() : input_part(part))
    ready.push_back({.op = op});
  return ready;
}

}  // namespace

LayerBlockKind feed_forward_block() {
  return {.name = "feed-forward",
          .half = LayerHalf::FeedForward,
          .is_at = [](const Architecture& /*a*/, std::int64_t /*layer*/) { return true; },
          .forward = [](LayerTools& tools) { FeedForward(tools).forward(); },
          .backward = [](LayerTools& tools,
                         BackwardPart part) { return FeedForward(tools).backward(part); },
          .second_products = [](LayerTools& tools) { FeedForward(tools).second_products(); },
          .may_end_early = true};
}

}  // namespace trainyard
