#include "models/lower/elementwise.hpp"

#include <string>

namespace trainyard {

OpIndex Elementwise::memory_bound(std::string_view name, MemoryBoundKind kind, std::int64_t bytes,
                                  std::int64_t launches) {
  return build_.compute(name, MemoryBound{.kind = kind, .bytes = bytes, .launches = launches});
}

OpIndex Elementwise::stream(std::string_view name, MemoryBoundKind kind, const StreamingPass& pass,
                            std::int64_t numbers) {
  return memory_bound(name, kind, pass.bytes(shape_.element) * numbers, pass.launches);
}

void Elementwise::norm_forward(std::string_view name) {
  stream(name, MemoryBoundKind::Norm, streaming_.norm(arch_).forward,
         shape_.local_tokens * arch_.hidden);
}

OpIndex Elementwise::norm_backward(std::string_view name) {
  return stream(name, MemoryBoundKind::Norm, streaming_.norm(arch_).backward,
                shape_.local_tokens * arch_.hidden);
}

void Elementwise::activation_forward(std::string_view name, std::int64_t numbers) {
  stream(name, MemoryBoundKind::Activation, streaming_.activation_of(arch_).forward, numbers);
}

void Elementwise::activation_backward(std::string_view name, std::int64_t numbers) {
  stream(name, MemoryBoundKind::Activation, streaming_.activation_of(arch_).backward, numbers);
}

// Into the order of the ranks before a scatter, out of it after a gather.
void Elementwise::copy_sequence(std::string_view name, std::int64_t bytes) {
  if (!streaming_.sequence_copies || !shape_.sequence_parallel) return;
  memory_bound(std::string(name) + "_copy", MemoryBoundKind::Elementwise, 2 * bytes);
}

// The gradients are added two read and one written at a time, or all read at once.
void Elementwise::join_input_gradients(std::string_view name, std::int64_t products) {
  const std::int64_t further = products - 1;
  if (!streaming_.separate_products || further == 0) return;
  const bool at_once = streaming_.compiled;
  const StreamingPass pass{.narrow = at_once ? further + 2 : 3 * further,
                           .launches = at_once ? 1 : further};
  stream(std::string(name) + "_gradient_add", MemoryBoundKind::Elementwise, pass,
         shape_.tokens * arch_.hidden);
}

// Bias, dropout and residual in one kernel: reads two, writes one, and a byte of mask under
// dropout.
void Elementwise::residual_forward(std::string_view block, bool added) {
  const std::string text(block);
  if (arch_.post_norms) norm_forward(text + "_post_norm");
  if (!added) return;
  const std::int64_t bytes = 3 * shape_.element + (arch_.dropout ? 1 : 0);
  memory_bound(text + "_residual", MemoryBoundKind::Elementwise,
               bytes * shape_.local_tokens * arch_.hidden);
}

// The dropout mask applied to the gradient; without dropout the gradient passes as it is.
std::vector<ReadyGradient> Elementwise::residual_backward(std::string_view block,
                                                          BackwardPart part) {
  const std::string text(block);
  if (arch_.dropout && part != BackwardPart::Weight)
    memory_bound(text + "_residual_backward", MemoryBoundKind::Elementwise,
                 (2 * shape_.element + 1) * shape_.local_tokens * arch_.hidden);
  if (!arch_.post_norms) return {};
  return {norm_back(text + "_post_norm_backward", {.part = part, .before_block = false})};
}

// The gradient of a norm was final with the input gradients: those are all done before any weight
// part.
ReadyGradient Elementwise::norm_back(std::string_view name, const NormBack& norm) {
  OpIndex op = build_.last_compute();
  if (norm.part != BackwardPart::Weight) {
    StreamingPass pass = streaming_.norm(arch_).backward;
    if (norm.before_block) pass.narrow += 3;
    op = stream(name, MemoryBoundKind::Norm, pass, shape_.local_tokens * arch_.hidden);
  }
  return {.op = op};
}

}  // namespace trainyard
