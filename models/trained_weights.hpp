// Which weights are trained, and how far back the backward has to go.
//
// A frozen layer has no weight gradient, no optimizer state and nothing to reduce; its backward is
// the input gradient alone, and it keeps no input of a product. Before the first trained weight of
// the model there is no backward at all: nothing is kept and nothing is sent to the stage before.
//
//   trained_weights(plan).reaches(3);   // false where the embedding and layers 0 to 3 are frozen
//
// Low-rank adapters on frozen weights (LoRA, Hu et al. 2106.09685): beside a frozen matrix of
// `inputs` x `outputs` two trained ones, inputs x r and r x outputs. The frozen ones may be kept in
// four bits (QLoRA, Dettmers et al. 2305.14314).
//
//   adapter_parameters(load_architecture("llama3-8b"), {.lora_rank = 16});   // 41 943 040
//   frozen_bytes("nf4") * 70.55e9;                                           // 36.39456787e9
//
// On tensor ranks a column-parallel matrix's adapter has its first factor on every rank and its
// second divided as the matrix is; a row-parallel one the other way round.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/plan.hpp"
#include "sim/base/words.hpp"

namespace trainyard {

// With adapters (lora_rank) only those are trained: a layer is, unless it is frozen itself.
struct TrainedWeights {
  bool embedding = true;
  bool head = true;  // with the norm before it
  std::vector<std::int64_t> frozen_layers = {};
  // The lowest layer that is trained: -1 the embedding, the number of layers where only the head
  // is, one more where nothing is.
  std::int64_t first = -1;

  [[nodiscard]] bool layer(std::int64_t number) const;
  // Does a gradient come as far back as to this layer?
  [[nodiscard]] bool reaches(std::int64_t number) const { return number >= first; }
};
[[nodiscard]] TrainedWeights trained_weights(const TrainingPlan& plan);

// Is anything frozen beside what adapters leave alone?
[[nodiscard]] bool freezes(const Training& training);

// ---- adapters

// One adapter on one tensor rank.
struct Adapter {
  std::string target;            // "query"
  std::string_view kernel = {};  // "qkv": of the product that its matrix is part of
  bool row_parallel = false;
  std::int64_t inputs = 0;   // of this rank: divided for row-parallel matrices
  std::int64_t outputs = 0;  // of this rank: divided for column-parallel matrices
  std::int64_t rank = 0;
  [[nodiscard]] std::int64_t parameters() const { return rank * (inputs + outputs); }
};

inline constexpr Words<bool AdapterTargets::*, 7> kAdapterTargets{
    {{&AdapterTargets::query, "query"},
     {&AdapterTargets::key, "key"},
     {&AdapterTargets::value, "value"},
     {&AdapterTargets::projection, "projection"},
     {&AdapterTargets::gate, "gate"},
     {&AdapterTargets::up, "up"},
     {&AdapterTargets::down, "down"}}};

// The adapters of one layer on one of `tensor` ranks; empty without adapters. A layer without a
// gate has none, one with experts has those of its attention alone: experts, router and shared
// experts stay frozen.
[[nodiscard]] std::vector<Adapter> layer_adapters(const Architecture& architecture,
                                                  const Training& training, std::int64_t tensor,
                                                  LayerKind kind);
// Every matrix of the layer's attention may have one.
[[nodiscard]] bool takes_adapters(LayerKind kind, const Architecture& architecture);
// The adapters of one tensor rank's layers, and how the frozen matrices beside them are kept.
struct AdapterSet {
  std::int64_t rank = 0;  // 0: there are none
  AdapterTargets targets = {};
  std::vector<std::pair<LayerKind, std::vector<Adapter>>> kinds = {};  // of layers
  double frozen_bytes = 0.0;  // of a number of those matrices (frozen_bytes)
  bool dequantises = false;
  [[nodiscard]] bool any() const { return rank > 0; }
  [[nodiscard]] const std::vector<Adapter>& of(LayerKind kind) const;
};
[[nodiscard]] AdapterSet adapter_set(const Architecture& architecture, const Training& training,
                                     std::int64_t tensor);

// Parameters of the adapters of the whole model, undivided.
[[nodiscard]] std::int64_t adapter_parameters(const Architecture& architecture,
                                              const Training& training);

// Bytes of one frozen parameter: as it is trained, or in NF4, 4 bits with an 8-bit constant for
// each block of 64 and a 32-bit one for each 256 of those: 0.5 + (8/64 + 32/(64 * 256))/8.
[[nodiscard]] double frozen_bytes(const Training& training);
// The frozen weights have to be written out in the training precision before each product.
[[nodiscard]] bool dequantises(const Training& training);

}  // namespace trainyard
