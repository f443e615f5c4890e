// Products of linear layers and what stands beside them: low-rank adapters on frozen matrices
// (models/trained_weights.hpp), and the casts that their storage and the recipe's precision ask
// for.
//
//   linear.prepare("ffn_down", hidden * ffn, tokens * ffn);
//   build.compute("ffn_down_gemm", linear.product(tokens, hidden, ffn, GemmPass::Forward));
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/lower/elementwise.hpp"
#include "models/lower/layer_options.hpp"
#include "models/lower/program_builder.hpp"
#include "models/lower/step_shape.hpp"

namespace trainyard {

class LinearLayers {
 public:
  LinearLayers(const ProductOptions& options, const StepShape& shape, ProgramBuilder& build,
               Elementwise& elementwise)
      : options_(options), shape_(shape), build_(build), elementwise_(elementwise) {}

  // m x k by k x n.
  [[nodiscard]] Gemm product(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const;
  // Adapters are trained, and no matrix itself.
  [[nodiscard]] bool frozen() const { return options_.adapters.any(); }
  // Writes out so many numbers of a frozen matrix that is kept in four bits.
  void dequantise(std::string_view name, std::int64_t parameters);
  // Writes what a product needs first: a frozen matrix kept in four bits is written out, and where
  // the recipe multiplies in 8 bits the activation or gradient of so many elements is quantised,
  // each rank its own rows where these are gathered in 8 bits.
  enum class Rows : std::uint8_t { OwnedWhole, Gathered };
  void prepare(std::string_view name, std::int64_t parameters, std::int64_t elements,
               Rows rows = Rows::OwnedWhole);
  // Products of the adapters on the matrices that a kernel's name stands for.
  void adapters_forward(std::string_view name);
  void adapters_dgrad(std::string_view name);
  OpIndex adapters_wgrad(std::string_view name);

 private:
  void adapters_back(std::string_view name, bool weights);
  [[nodiscard]] std::vector<Adapter> adapters_here() const;  // on the layer that the tags name

  const ProductOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  Elementwise& elementwise_;
};

}  // namespace trainyard
