// The weight matrices of one layer: the one list that parameters, FLOPs, shards, gradients and the
// inputs that products keep are counted from. A kind of block of a layer adds its own.
//
//   for (const Weight& weight : layer_weights(a, LayerKind::Dense))
//     flops_per_token += 2 * weight.active * weight.inputs * weight.outputs;
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/architecture/architecture.hpp"
#include "models/architecture/settings.hpp"

namespace trainyard {

// How tensor parallelism divides a matrix (Shoeybi et al. 1909.08053 section 3): its outputs
// (Column), its inputs (Row), or not at all. Experts are divided among expert-parallel ranks first,
// and then over their own tensor group.
enum class Split : std::uint8_t { Column, Row, None };

enum class WeightPart : std::uint8_t { Attention, Router, FeedForward };

struct Weight {
  std::string_view name = {};  // "query", "key_value", "projection", "up", "down", "router" ...
  WeightPart part = WeightPart::FeedForward;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  Split split = Split::None;
  std::int64_t units = 1;  // the divided side falls apart into so many equal parts (heads, columns)
  bool bias = false;       // one number an output
  std::int64_t copies = 1;  // experts
  std::int64_t active = 1;  // of them, those that one token meets
  bool joined = false;      // one product with the matrix before it, of the same input
  std::int64_t parts = 1;   // equal tensors along the outputs that a framework keeps it as
  std::int64_t vector = 0;  // numbers trained beside it: the gain of a norm, a router's bias
  // Modules whose recomputation runs the product again, and how much of it runs again where the
  // outputs of every second product are kept.
  std::array<bool RecomputeModules::*, 2> modules = {};
  double second_product = 0.0;
  [[nodiscard]] bool expert() const { return copies > 1; }
  [[nodiscard]] std::int64_t parameters() const { return inputs * outputs + (bias ? outputs : 0); }
};

// In the order of the forward pass.
[[nodiscard]] std::vector<Weight> layer_weights(const Architecture& architecture, LayerKind kind);

// Gains and shifts of the layer's norms: the two of every layer, those of latents, of heads, and
// the router's bias. No tensor rank has less than all of them.
[[nodiscard]] std::int64_t layer_vectors(const Architecture& architecture, LayerKind kind);

// Parameters on one of `tensor` ranks, in whole units of the divided side. REQUIRES: tensor divides
// the units, if the matrix is divided.
[[nodiscard]] std::int64_t split_parameters(const Weight& weight, std::int64_t tensor);

}  // namespace trainyard
