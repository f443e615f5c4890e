// The streaming operations of a layer: kernels whose time is what they read and write.
#include <string>

#include "models/architecture/shard.hpp"
#include "models/lower/layer.hpp"

namespace trainyard {

namespace {

// Products of one input beside the first, where each matrix has its own: keys and values beside
// queries, up beside gate.
std::int64_t further_products(const Architecture& a, std::string_view name) {
  if (name == "qkv") return 2;
  return (name == "ffn_up" || name == "shared_up") && a.gated_ffn ? 1 : 0;
}

}  // namespace

OpIndex LayerLowering::memory_bound(std::string_view name, MemoryBoundKind kind, std::int64_t bytes,
                                    std::int64_t launches) {
  return build_.compute(name, MemoryBound{.kind = kind, .bytes = bytes, .launches = launches});
}

OpIndex LayerLowering::stream(std::string_view name, MemoryBoundKind kind,
                              const StreamingPass& pass, std::int64_t numbers) {
  return memory_bound(name, kind, pass.bytes(shape_.element) * numbers, pass.launches);
}

void LayerLowering::norm_forward(std::string_view name) {
  stream(name, MemoryBoundKind::Norm, plan_.streaming.norm(arch_).forward,
         shape_.local_tokens * arch_.hidden);
}

OpIndex LayerLowering::norm_backward(std::string_view name) {
  return stream(name, MemoryBoundKind::Norm, plan_.streaming.norm(arch_).backward,
                shape_.local_tokens * arch_.hidden);
}

std::int64_t LayerLowering::query_and_key_width() const {
  return arch_.query_width() / shape_.tensor + kv_width_per_rank(arch_, shape_.tensor);
}

// Over each head of queries and of keys, where the model has such norms.
void LayerLowering::head_norms(std::string_view name, Way way) {
  if (!arch_.qk_norm) return;
  const StreamingOperation& norm = plan_.streaming.rms_norm;
  const std::int64_t width = query_and_key_width();
  stream(name, MemoryBoundKind::Norm, way == Way::Forward ? norm.forward : norm.backward,
         shape_.tokens * width);
}

void LayerLowering::rotary(std::string_view name, Way way) {
  if (arch_.positions != Positions::Rotary) return;
  const StreamingOperation& turned = plan_.streaming.rotary;
  const std::int64_t width = query_and_key_width();
  stream(name, MemoryBoundKind::Rope, way == Way::Forward ? turned.forward : turned.backward,
         shape_.tokens * width);
}

// Keys and values, each read once and written for all query heads; or their gradients, read for all
// and written once.
void LayerLowering::repeat_heads(std::string_view name) {
  if (!plan_.streaming.repeated_heads || arch_.heads == arch_.kv_heads) return;
  const std::int64_t width = 2 * query_and_key_width();
  memory_bound(name, MemoryBoundKind::Elementwise, shape_.element * shape_.tokens * width, 2);
}

// The gradients of one input that came back through several products, two read and one written at a
// time, or all read at once.
void LayerLowering::join_input_gradients(std::string_view name) {
  const std::int64_t further = further_products(arch_, name);
  if (!plan_.streaming.separate_products || further == 0) return;
  const bool at_once = plan_.streaming.compiled;
  const StreamingPass pass{.narrow = at_once ? further + 2 : 3 * further,
                           .launches = at_once ? 1 : further};
  stream(std::string(name) + "_gradient_add", MemoryBoundKind::Elementwise, pass,
         shape_.tokens * arch_.hidden);
}

// Into the order of the ranks before a scatter, out of it after a gather.
void LayerLowering::copy_sequence(std::string_view name, std::int64_t bytes) {
  if (!plan_.streaming.sequence_copies || !shape_.sequence_parallel) return;
  memory_bound(std::string(name) + "_copy", MemoryBoundKind::Elementwise, 2 * bytes);
}

void LayerLowering::join_attention_gradients() {
  if (!plan_.streaming.joined_gradients) return;
  const std::int64_t width = query_and_key_width() + kv_width_per_rank(arch_, shape_.tensor);
  memory_bound("qkv_gradient_join", MemoryBoundKind::Elementwise,
               2 * shape_.element * shape_.tokens * width);
}

// Bias, dropout and residual in one kernel: reads two, writes one, and a byte of mask under
// dropout.
void LayerLowering::residual_forward(std::string_view block) {
  const std::string text(block);
  if (arch_.post_norms) norm_forward(text + "_post_norm");
  const std::int64_t bytes = 3 * shape_.element + (arch_.dropout ? 1 : 0);
  memory_bound(text + "_residual", MemoryBoundKind::Elementwise,
               bytes * shape_.local_tokens * arch_.hidden);
}

// The dropout mask applied to the gradient; without dropout the gradient passes as it is.
void LayerLowering::residual_backward(std::string_view block, BackwardPart part,
                                      std::vector<ReadyGradient>* ready) {
  const std::string text(block);
  if (arch_.dropout && part != BackwardPart::Weight)
    memory_bound(text + "_residual_backward", MemoryBoundKind::Elementwise,
                 (2 * shape_.element + 1) * shape_.local_tokens * arch_.hidden);
  if (arch_.post_norms)
    norm_back(text + "_post_norm_backward", {.part = part, .before_block = false}, ready);
}

void LayerLowering::activation_forward(std::string_view name, std::int64_t numbers) {
  stream(name, MemoryBoundKind::Activation, plan_.streaming.activation_of(arch_).forward, numbers);
}

void LayerLowering::activation_backward(std::string_view name, std::int64_t numbers) {
  stream(name, MemoryBoundKind::Activation, plan_.streaming.activation_of(arch_).backward, numbers);
}

}  // namespace trainyard
