#include "models/layers/layer_tools.hpp"

#include <cmath>
#include <string>

#include "models/layers/layer_block.hpp"

namespace trainyard {

OpIndex Elementwise::memory_bound(std::string_view name, MemoryBoundKind kind, std::int64_t bytes,
                                  std::int64_t launches) {
  return build_.compute(name, MemoryBound{.kind = kind, .bytes = bytes, .launches = launches});
}

OpIndex Elementwise::stream(std::string_view name, MemoryBoundKind kind,
                            const ElementwisePass& pass, std::int64_t numbers) {
  return memory_bound(name, kind, pass.bytes(shape_.element) * numbers, pass.launches);
}

void Elementwise::norm_forward(std::string_view name) {
  stream(name, MemoryBoundKind::Norm, kernels_.norm(arch_).forward,
         shape_.local_tokens * arch_.hidden);
}

OpIndex Elementwise::norm_backward(std::string_view name) {
  return stream(name, MemoryBoundKind::Norm, kernels_.norm(arch_).backward,
                shape_.local_tokens * arch_.hidden);
}

void Elementwise::activation_forward(std::string_view name, std::int64_t numbers) {
  stream(name, MemoryBoundKind::Activation, kernels_.activation_of(arch_).forward, numbers);
}

void Elementwise::activation_backward(std::string_view name, std::int64_t numbers) {
  stream(name, MemoryBoundKind::Activation, kernels_.activation_of(arch_).backward, numbers);
}

// Copies a tensor into the order of the ranks before a scatter, or out of it after a gather.
void Elementwise::copy_sequence(std::string_view name, std::int64_t bytes) {
  if (!kernels_.sequence_copies || !shape_.sequence_parallel) return;
  memory_bound(std::string(name) + "_copy", MemoryBoundKind::Elementwise, 2 * bytes);
}

// Each addition reads two gradients and writes one; a compiled kernel reads all of them at once.
// For queries, keys and values these are two kernels with 6 accesses an element, or one with 4.
void Elementwise::join_input_gradients(std::string_view name, std::int64_t gemms) {
  const std::int64_t further = gemms - 1;
  if (!kernels_.separate_gemms || further == 0) return;
  const bool at_once = kernels_.compiled;
  const ElementwisePass pass{.narrow = at_once ? further + 2 : 3 * further,
                             .launches = at_once ? 1 : further};
  stream(std::string(name) + "_gradient_add", MemoryBoundKind::Elementwise, pass,
         shape_.tokens * arch_.hidden);
}

// Bias, dropout and residual addition in one kernel: it reads two numbers and writes one, and a
// byte of mask with dropout.
void Elementwise::residual_forward(std::string_view block, bool added) {
  const std::string text(block);
  if (arch_.post_norms) norm_forward(text + "_post_norm");
  if (!added) return;
  const std::int64_t bytes = 3 * shape_.element + (arch_.dropout ? 1 : 0);
  memory_bound(text + "_residual", MemoryBoundKind::Elementwise,
               bytes * shape_.local_tokens * arch_.hidden);
}

// Applies the dropout mask to the gradient. Without dropout the gradient passes unchanged.
std::vector<ReadyGradient> Elementwise::residual_backward(std::string_view block,
                                                          BackwardPart part) {
  const std::string text(block);
  if (arch_.dropout && part != BackwardPart::Weight)
    memory_bound(text + "_residual_backward", MemoryBoundKind::Elementwise,
                 (2 * shape_.element + 1) * shape_.local_tokens * arch_.hidden);
  if (!arch_.post_norms) return {};
  return {norm_backward_step(text + "_post_norm_backward", {.part = part, .before_block = false})};
}

// In the weight part the gradient of a norm is already final, because the input parts come before.
ReadyGradient Elementwise::norm_backward_step(std::string_view name, const NormBack& norm) {
  OpIndex op = build_.last_compute();
  if (norm.part != BackwardPart::Weight) {
    ElementwisePass pass = kernels_.norm(arch_).backward;
    if (norm.before_block) pass.narrow += 3;
    op = stream(name, MemoryBoundKind::Norm, pass, shape_.local_tokens * arch_.hidden);
  }
  return {.op = op};
}

// ---- GEMMs of linear layers
//
// An adapter computes x A forward, then (x A) B. Backward it computes the gradient of x A from B,
// that of x from A, and the gradients of both factors. A frozen matrix has no weight gradient. The
// output of an adapter on a row-parallel matrix is a partial sum, like that of the matrix itself,
// and is reduced together with it.

namespace {

template <class Visit>
void each_on(const std::vector<Adapter>& adapters, std::string_view kernel, const Visit& visit) {
  for (const Adapter& adapter : adapters)
    if (adapter.kernel == kernel) visit(adapter);
}

}  // namespace

Gemm LinearLayers::gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const {
  return {.m = m,
          .n = n,
          .k = k,
          .batch = 1,
          .dtype = options_.recipe.gemms.value_or(shape_.dtype),
          .pass = pass,
          .accumulate_fp32 = options_.accumulates && pass == GemmPass::WeightGrad};
}

std::vector<Adapter> LinearLayers::adapters_here() const {
  const std::int32_t layer = build_.tags().layer;
  if (!frozen() || !options_.trained.layer(layer)) return {};
  return options_.adapters.of(layer_kind(options_.architecture, layer));
}

void LinearLayers::adapters_forward(std::string_view name) {
  each_on(adapters_here(), name, [this](const Adapter& adapter) {
    build_.compute(adapter.target + "_adapter_in",
                   gemm(shape_.tokens, adapter.rank, adapter.inputs, GemmPass::Forward));
    build_.compute(adapter.target + "_adapter_out",
                   gemm(shape_.tokens, adapter.outputs, adapter.rank, GemmPass::Forward));
  });
}

// Backward through both factors, the last one first: the GEMMs of the input gradient, or with
// `weights` those of the gradients of the factors.
void LinearLayers::adapters_back(std::string_view name, bool weights) {
  const GemmPass pass = weights ? GemmPass::WeightGrad : GemmPass::DataGrad;
  const std::string_view suffix = weights ? "_wgrad" : "_dgrad";
  each_on(adapters_here(), name, [&](const Adapter& adapter) {
    const auto factor = [&](std::string_view end, std::int64_t from, std::int64_t to) {
      build_.compute(
          adapter.target + std::string(end).append(suffix),
          weights ? gemm(to, from, shape_.tokens, pass) : gemm(shape_.tokens, from, to, pass));
    };
    factor("_adapter_out", adapter.rank, adapter.outputs);
    factor("_adapter_in", adapter.inputs, adapter.rank);
  });
}

void LinearLayers::adapters_dgrad(std::string_view name) { adapters_back(name, false); }

OpIndex LinearLayers::adapters_wgrad(std::string_view name) {
  adapters_back(name, true);
  return build_.last_compute();
}

void LinearLayers::dequantise(std::string_view name, std::int64_t parameters) {
  if (!frozen() || !options_.adapters.dequantises) return;
  const double bytes = options_.adapters.frozen_bytes + static_cast<double>(shape_.element);
  elementwise_.memory_bound(std::string(name) + "_dequantise", MemoryBoundKind::Cast,
                            std::llround(static_cast<double>(parameters) * bytes));
}

std::int64_t LinearLayers::quantise_bytes(std::int64_t numbers, std::int64_t layouts) const {
  const std::int64_t reads = options_.scaling == Fp8Scaling::Current ? 2 : 1;
  return numbers * (reads * shape_.element + layouts);
}

// An operand is quantised directly and transposed, for this GEMM and for the weight gradient: two
// layouts of 1 byte. An operand that is gathered in 8 bits is quantised before, each rank its
// share, and transposed after, with 1 byte read and 1 written for all of it.
void LinearLayers::prepare(std::string_view name, std::int64_t parameters, std::int64_t elements,
                           Rows rows) {
  const std::string text(name);
  dequantise(name, parameters);
  if (options_.recipe.gemms != DataType::Fp8) return;
  const bool shared = rows == Rows::Gathered && shape_.sequence_parallel && shape_.tensor > 1 &&
                      options_.recipe.sequence_wire == DataType::Fp8;
  elementwise_.memory_bound(text + "_quantise", MemoryBoundKind::Cast,
                            shared ? quantise_bytes(elements / shape_.tensor, 1) + 2 * elements
                                   : quantise_bytes(elements, 2));
}

}  // namespace trainyard
