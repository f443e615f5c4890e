#include "models/lower/layer.hpp"

namespace trainyard {

const LayerBlockKind& LayerLowering::block(LayerHalf half) const {
  return layer_block_at(tools_.options.architecture, half, tools_.build.tags().layer);
}

void LayerLowering::forward(const ForwardMemory& memory, const LayerParts& parts) {
  ProgramBuilder& build = tools_.build;
  const OpIndex first = build.next();
  if (parts.attention_norm) tools_.elementwise.norm_forward("attention_norm");
  if (parts.attention) block(LayerHalf::Attention).forward(tools_);
  if (parts.ffn_norm) tools_.elementwise.norm_forward("ffn_norm");
  if (parts.ffn) block(LayerHalf::FeedForward).forward(tools_);
  build.allocate(first, Category::Activations, memory.kept);
  build.allocate(first, Category::Workspace, memory.beside);
  build.release(build.last_compute(), Category::Workspace, memory.beside);
}

std::vector<ReadyGradient> LayerLowering::backward(BackwardPart part, const BackwardMemory& memory,
                                                   const LayerParts& parts) {
  ProgramBuilder& build = tools_.build;
  const OpIndex first = build.next();
  std::vector<ReadyGradient> ready = blocks_backward(part, parts);
  const OpIndex end = build.last_compute();
  build.allocate(first, Category::Activations, memory.rebuilt);
  build.allocate(first, Category::Workspace, memory.beside);
  build.release(end, Category::Activations, memory.freed);
  build.release(end, Category::Workspace, memory.beside);
  return ready;
}

// The gradient of a norm was final with the input gradients: those are all done before any weight
// part.
std::vector<ReadyGradient> LayerLowering::blocks_backward(BackwardPart part,
                                                          const LayerParts& parts) {
  Elementwise& elementwise = tools_.elementwise;
  std::vector<ReadyGradient> ready;
  if (parts.ffn) ready = block(LayerHalf::FeedForward).backward(tools_, part);
  if (parts.ffn_norm)
    ready.push_back(elementwise.norm_back("ffn_norm_backward", {part, parts.ffn}));
  if (parts.attention) {
    const auto own = block(LayerHalf::Attention).backward(tools_, part);
    ready.insert(ready.end(), own.begin(), own.end());
  }
  if (parts.attention_norm)
    ready.push_back(elementwise.norm_back("attention_norm_backward", {part, parts.attention}));
  return ready;
}

}  // namespace trainyard
