// The feed-forward block of a layer without experts.
#include "models/layers/feed_forward.hpp"

#include <algorithm>
#include <array>

#include "models/layers/layer_tools.hpp"

namespace trainyard {

namespace {

class FeedForward : BlockWriter {
 public:
  explicit FeedForward(LayerTools& tools) : BlockWriter(tools) {}

  void forward();
  std::vector<ReadyGradient> backward(BackwardPart part);
  void second_gemms();

 private:
  using Weights = std::array<OpIndex, 2>;  // operations after which their gradients are final
  // Gate and up are one column-parallel GEMM.
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

// A layer that is recomputed as a whole omits its last GEMM, unless a norm reads the output.
void FeedForward::forward() {
  up_forward();
  if (!tools_.skips_last_gemm() || arch_.post_norms) down_forward();
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
      linear_.gemm(shape_.tokens, up_layer().outputs, arch_.hidden, GemmPass::Forward));
  linear_.adapters_forward("ffn_up");
  elementwise_.activation_forward("ffn_activation", shape_.tokens * local_ffn);
}

void FeedForward::down_forward() {
  const std::int64_t local_ffn = arch_.ffn / shape_.tensor;
  linear_.prepare("ffn_down", arch_.hidden * local_ffn, shape_.tokens * local_ffn);
  linear_.adapters_forward("ffn_down");
  tensor_.row_forward("ffn_join", "ffn_down_gemm",
                      linear_.gemm(shape_.tokens, arch_.hidden, local_ffn, GemmPass::Forward));
}

// Recomputes up and the activation; the outputs of gate and down are stored.
void FeedForward::second_gemms() {
  const std::int64_t local_ffn = arch_.ffn / shape_.tensor;
  tensor_.column_forward("ffn_all_gather", "ffn_up_gemm",
                         linear_.gemm(shape_.tokens, local_ffn, arch_.hidden, GemmPass::Forward));
  elementwise_.activation_forward("ffn_activation", shape_.tokens * local_ffn);
}

// Both gathers start before the first GEMM, so that the second one overlaps with it.
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

// Recomputed tensors are rebuilt before the first kernel that reads them; then the backward runs
// from down to up.
FeedForward::Weights FeedForward::input_part(BackwardPart part) {
  const std::int64_t local_ffn = arch_.ffn / shape_.tensor;
  if (options_.recomputed.norms) tools_.repeat([this] { elementwise_.norm_forward("ffn_norm"); });
  if (options_.recomputed.feed_forward) tools_.repeat([this] { matrices(); });
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

// ---- what follows from the shape

std::vector<Weight> mlp_weights(const Architecture& a) {
  std::vector<Weight> both = feed_forward_weights(
      a,
      {.up = "up", .down = "down", .width = a.ffn, .modules = {&RecomputeModules::feed_forward}});
  Weight& up = both.front();
  Weight& down = both.back();
  up.second_gemm = 0.5;  // the output of the gate's half is stored
  up.gemm = "ffn_up";
  down.gemm = "ffn_down";
  using Targets = AdapterTargets;
  if (a.gated_ffn)
    up.adapters = {&Targets::gate, &Targets::up};
  else
    up.adapters = {&Targets::up};
  down.adapters = {&Targets::down};
  return both;
}

// The output of the gate, and the block's own output where it is read later.
std::int64_t second_gemm_bytes(const Architecture& a, const ActivationQuery& query) {
  const ActivationSizes sizes(query);
  const bool read_again = !query.compiled || a.post_norms;
  return sizes.inside(sizes.element * a.ffn) +
         (read_again ? sizes.outside(sizes.element * a.hidden) : 0);
}

LayerActivations mlp_kept(const Architecture& a, const ActivationQuery& query) {
  const RecomputeModules recomputed = recomputed_modules(query);
  if (recomputed.second_gemms) return {.ffn = second_gemm_bytes(a, query)};
  const ActivationSizes sizes(query);
  const std::int64_t normed = recomputed.norms ? 0 : sizes.gemm_inputs(a.hidden);
  const std::int64_t inner = recomputed.feed_forward ? 0 : activation_bytes(a, a.ffn, sizes);
  return {.ffn = normed + inner + sizes.dropout_mask(a)};
}

std::int64_t mlp_gradients(const BlockBackward& backward) {
  const Architecture& a = backward.architecture;
  const std::int64_t inner = ActivationSizes(backward.query).tokens * a.ffn / backward.query.tensor;
  return activation_gradients(a, backward.gathered, inner);
}

// The inputs of the up and the down matrices.
std::int64_t mlp_frozen_inputs(const FrozenLayer& layer) {
  if (layer.recomputes_modules) return 0;
  const Architecture& a = layer.architecture;
  const AdapterTargets& on = layer.adapted;
  const ActivationSizes sizes(layer.query);
  return (on.gate || on.up ? 0 : sizes.gemm_inputs(a.hidden)) +
         (on.down ? 0 : sizes.inside(sizes.entering(a.ffn)));
}

}  // namespace

std::vector<Weight> feed_forward_weights(const Architecture& a, const FeedForwardShape& part) {
  return {{.name = part.up,
           .inputs = a.hidden,
           .outputs = a.ffn_inputs() * part.width,
           .split = Split::Column,
           .units = part.width,
           .bias = a.biases,
           .copies = part.copies,
           .active = part.active,
           .parts = a.ffn_inputs(),
           .modules = part.modules},
          {.name = part.down,
           .inputs = part.width,
           .outputs = a.hidden,
           .split = Split::Row,
           .units = part.width,
           .bias = a.biases,
           .copies = part.copies,
           .active = part.active,
           .modules = part.modules}};
}

// Bytes of one rank for the inputs of the activation, its output, which is the input of the down
// GEMM, and additional tensors.
std::int64_t activation_bytes(const Architecture& a, std::int64_t width,
                              const ActivationSizes& sizes) {
  return sizes.inside(sizes.activated(a.ffn_inputs() * width) + sizes.entering(width) +
                      sizes.extra_activation_tensors * sizes.element * width);
}

std::int64_t activation_gradients(const Architecture& a, std::int64_t output, std::int64_t width) {
  return std::max(output + width, a.ffn_inputs() * width);
}

LayerBlock feed_forward_block() {
  return {.name = "feed-forward",
          .operator_word = "mlp",
          .half = LayerHalf::FeedForward,
          .is_at = [](const Architecture& /*a*/, std::int64_t /*layer*/) { return true; },
          .weights = mlp_weights,
          .kept = mlp_kept,
          .gradients = mlp_gradients,
          .frozen_inputs = mlp_frozen_inputs,
          .forward = [](LayerTools& tools) { FeedForward(tools).forward(); },
          .backward = [](LayerTools& tools,
                         BackwardPart part) { return FeedForward(tools).backward(part); },
          .second_gemms = [](LayerTools& tools) { FeedForward(tools).second_gemms(); },
          .may_end_early = true};
}

}  // namespace trainyard
