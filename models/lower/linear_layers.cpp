// Forward x A, then (x A) B; backward the gradient of x A from B, of x from A, and the gradients of
// both factors. A frozen matrix has no weight gradient. What adapters add on a row-parallel matrix
// is a partial sum like the matrix's own and is joined with it.
#include "models/lower/linear_layers.hpp"

#include <cmath>
#include <string>

namespace trainyard {

namespace {

template <class Visit>
void each_on(const std::vector<Adapter>& adapters, std::string_view kernel, const Visit& visit) {
  for (const Adapter& adapter : adapters)
    if (adapter.kernel == kernel) visit(adapter);
}

}  // namespace

Gemm LinearLayers::product(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const {
  return {.m = m,
          .n = n,
          .k = k,
          .batch = 1,
          .dtype = options_.recipe.products.value_or(shape_.dtype),
          .pass = pass,
          .accumulate_fp32 = options_.accumulates && pass == GemmPass::WeightGrad};
}

std::vector<Adapter> LinearLayers::adapters_here() const {
  return options_.trained.layer(build_.tags().layer) ? options_.adapters.dense
                                                     : std::vector<Adapter>{};
}

void LinearLayers::adapters_forward(std::string_view name) {
  each_on(adapters_here(), name, [this](const Adapter& adapter) {
    build_.compute(adapter.target + "_adapter_in",
                   product(shape_.tokens, adapter.rank, adapter.inputs, GemmPass::Forward));
    build_.compute(adapter.target + "_adapter_out",
                   product(shape_.tokens, adapter.outputs, adapter.rank, GemmPass::Forward));
  });
}

// Back through both factors, the last one first: the products of the input gradient where `weights`
// is false, else those of the factors' own gradients.
void LinearLayers::adapters_back(std::string_view name, bool weights) {
  const GemmPass pass = weights ? GemmPass::WeightGrad : GemmPass::DataGrad;
  const std::string_view suffix = weights ? "_wgrad" : "_dgrad";
  each_on(adapters_here(), name, [&](const Adapter& adapter) {
    const auto factor = [&](std::string_view end, std::int64_t from, std::int64_t to) {
      build_.compute(adapter.target + std::string(end).append(suffix),
                     weights ? product(to, from, shape_.tokens, pass)
                             : product(shape_.tokens, from, to, pass));
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

// Quantised as it stands and transposed, for the product and for the weight gradient: 2 bytes read,
// 1 + 1 written. What is gathered in 8 bits is quantised before, 2 bytes read and 1 written of each
// rank's share, and transposed after, 1 read and 1 written of all.
void LinearLayers::prepare(std::string_view name, std::int64_t parameters, std::int64_t elements,
                           Rows rows) {
  const std::string text(name);
  dequantise(name, parameters);
  if (options_.recipe.products != DataType::Fp8) return;
  const bool shared = rows == Rows::Gathered && shape_.sequence_parallel && shape_.tensor > 1 &&
                      options_.recipe.sequence_wire == DataType::Fp8;
  elementwise_.memory_bound(text + "_quantise", MemoryBoundKind::Cast,
                            shared ? elements / shape_.tensor * (shape_.element + 1) + 2 * elements
                                   : elements * (shape_.element + 2));
}

}  // namespace trainyard
