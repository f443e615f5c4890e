#include "models/layers/layer.hpp"

namespace trainyard {

const LayerBlock& LayerLowering::block(LayerHalf half) const {
  return block_of(layer_kind(tools_.options.architecture, tools_.build.tags().layer), half);
}

namespace {

std::string_view name_of(LayerHalf half) {
  return half == LayerHalf::Attention ? "attention" : "ffn";
}

}  // namespace

void LayerLowering::block_forward(LayerHalf half) {
  const LayerBlock& kind = block(half);
  kind.forward(tools_);
  const bool added = !kind.may_end_early || !tools_.skips_last_gemm();
  tools_.elementwise.residual_forward(name_of(half), added);
}

// Everything of a layer except attention and the GEMMs whose outputs are stored: queries, values,
// gate, down.
void LayerLowering::recompute_second_gemms() {
  const LayerBlock& attention = block(LayerHalf::Attention);
  const LayerBlock& ffn = block(LayerHalf::FeedForward);
  if (!tools_.options.recomputed.second_gemms) return;
  if (attention.second_gemms == nullptr || ffn.second_gemms == nullptr) return;
  tools_.repeat([&] {
    tools_.elementwise.norm_forward("attention_norm");
    attention.second_gemms(tools_);
    tools_.elementwise.residual_forward("attention", true);
    tools_.elementwise.norm_forward("ffn_norm");
    ffn.second_gemms(tools_);
  });
}

std::vector<ReadyGradient> LayerLowering::block_backward(LayerHalf half, BackwardPart part) {
  std::vector<ReadyGradient> ready = tools_.elementwise.residual_backward(name_of(half), part);
  // The feed-forward half comes first in the backward, so the whole layer is recomputed there.
  if (half == LayerHalf::FeedForward && part != BackwardPart::Weight) recompute_second_gemms();
  const std::vector<ReadyGradient> own = block(half).backward(tools_, part);
  ready.insert(ready.end(), own.begin(), own.end());
  return ready;
}

void LayerLowering::forward(const ForwardMemory& memory, const LayerParts& parts) {
  ProgramBuilder& build = tools_.build;
  const OpIndex first = build.next();
  if (parts.attention_norm) tools_.elementwise.norm_forward("attention_norm");
  if (parts.attention) block_forward(LayerHalf::Attention);
  if (parts.ffn_norm) tools_.elementwise.norm_forward("ffn_norm");
  if (parts.ffn) block_forward(LayerHalf::FeedForward);
  build.memory().allocate(first, Category::Activations, memory.kept);
  build.memory().allocate(first, Category::Workspace, memory.workspace);
  build.memory().release(build.last_compute(), Category::Workspace, memory.workspace);
}

std::vector<ReadyGradient> LayerLowering::backward(BackwardPart part, const BackwardMemory& memory,
                                                   const LayerParts& parts) {
  ProgramBuilder& build = tools_.build;
  const OpIndex first = build.next();
  std::vector<ReadyGradient> ready = blocks_backward(part, parts);
  const OpIndex end = build.last_compute();
  build.memory().allocate(first, Category::Activations, memory.rebuilt);
  build.memory().allocate(first, Category::Workspace, memory.workspace);
  build.memory().release(end, Category::Activations, memory.freed);
  build.memory().release(end, Category::Workspace, memory.workspace);
  return ready;
}

// In the weight part the gradient of a norm is already final, because the input parts come before.
std::vector<ReadyGradient> LayerLowering::blocks_backward(BackwardPart part,
                                                          const LayerParts& parts) {
  Elementwise& elementwise = tools_.elementwise;
  std::vector<ReadyGradient> ready;
  if (parts.ffn) ready = block_backward(LayerHalf::FeedForward, part);
  if (parts.ffn_norm)
    ready.push_back(elementwise.norm_backward_step("ffn_norm_backward", {part, parts.ffn}));
  if (parts.attention) {
    const auto own = block_backward(LayerHalf::Attention, part);
    ready.insert(ready.end(), own.begin(), own.end());
  }
  if (parts.attention_norm)
    ready.push_back(
        elementwise.norm_backward_step("attention_norm_backward", {part, parts.attention}));
  return ready;
}

}  // namespace trainyard
