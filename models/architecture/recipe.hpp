// In how many bytes a parameter is kept: the recipe says it of weights and gradients, the optimizer
// of its own state. Both are data (models/recipes, models/optimizers), with their sources.
//
//   state_bytes_per_parameter({.optimizer = load_optimizer("adam_8bit")}).total();   // 12
//
// The names of what is there: data_names("models/recipes"), data_names("models/optimizers").
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/workload/kernel.hpp"

namespace trainyard {

// Bytes of one parameter. What is absent follows from the precision of training: weights and
// gradients as they are trained and accumulated, a master copy of 4 bytes where the weights have
// fewer.
struct Recipe {
  std::optional<double> weight_bytes = {};
  std::optional<double> gradient_bytes = {};
  std::optional<double> master_bytes = {};  // the optimizer's own copy of the weights
  double weight_cache_bytes = 0.0;          // transposed or quantised copies, with the weights
  double gradient_copy_bytes = 0.0;         // fp32 copies of 16-bit gradients, with the optimizer's
  std::optional<DataType> weight_wire = {};  // in which new weights are gathered
  std::optional<DataType> products = {};     // of the linear layers
  // These products multiply 4-bit numbers: `products` is fp8, at the rate of the GPU's fp4.
  bool four_bit_products = false;
  std::optional<DataType> attention = {};  // of the products inside fused attention
  // In which sequence parallelism gathers the operands of these products.
  std::optional<DataType> sequence_wire = {};
  // In how many bytes a number is kept for the backward, scales included: of the inputs of linear
  // layers (whose source, where the backward of attention reads it too, stays beside) and of
  // activation functions. Absent: as wide as activations are.
  std::optional<double> product_input_bytes = {};
  std::optional<double> activation_input_bytes = {};
  // Of attention's output, kept once for its own backward and the projection's.
  std::optional<double> attention_output_bytes = {};

  bool operator==(const Recipe&) const = default;
};

struct Optimizer {
  double first_moment_bytes = 4.0;
  double second_moment_bytes = 4.0;
  // Muon: the momentum of every matrix is made orthogonal by so many Newton-Schulz iterations
  // (Jordan et al. 2024).
  std::int64_t orthogonalisations = 0;
  std::string step = "adam";  // the name of its step's kernel: of all kinds of Adam "adam"

  bool operator==(const Optimizer&) const = default;
};

// By name. Throws InputError.
[[nodiscard]] Recipe load_recipe(const std::string& name);
[[nodiscard]] Optimizer load_optimizer(const std::string& name);

}  // namespace trainyard
