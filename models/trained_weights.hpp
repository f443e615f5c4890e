// The weights that are trained, and the layer at which the backward can stop.
//
// A frozen layer has no weight gradient, no optimizer state and nothing to reduce. Its backward is
// only the input gradient, and it stores no GEMM inputs. Before the first trained weight of the
// model there is no backward at all: nothing is stored, and nothing is sent to the stage before.
//
//    trained_weights(plan).reaches(3);   // false where the embedding and layers 0 to 3 are frozen
//
// Low-rank adapters (LoRA, Hu et al. 2106.09685) add to a frozen matrix of `inputs` x `outputs` two
// trained matrices, inputs x r and r x outputs. The frozen matrix may be stored in four bits
// (QLoRA, Dettmers et al. 2305.14314).
//
//    adapter_parameters(load_architecture("llama3-8b"), {.lora_rank = 16});   // 41 943 040
//    frozen_bytes({.frozen_weights = FrozenFormat::Nf4}) * 70.55e9;           // 36.39456787e9
//
// On tensor ranks, the adapter of a column-parallel matrix has its first factor on every rank and
// its second factor divided like the matrix. For a row-parallel matrix it is the reverse.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/plan.hpp"
#include "sim/base/words.hpp"

namespace trainyard {

// With adapters (lora_rank) only these are trained. The adapters of a layer are trained unless the
// layer is frozen.
struct TrainedWeights {
  bool embedding = true;
  bool head = true;  // together with the norm before it
  std::vector<std::int64_t> frozen_layers = {};
  // The lowest trained layer: -1 if the embedding is trained, the number of layers if only the LM
  // head is, one more if nothing is.
  std::int64_t first = -1;

  [[nodiscard]] bool layer(std::int64_t number) const;
  // True if a gradient is propagated back to this layer.
  [[nodiscard]] bool reaches(std::int64_t number) const { return number >= first; }
};
[[nodiscard]] TrainedWeights trained_weights(const TrainingPlan& plan);

// True if the settings freeze any weight, apart from those that adapters freeze.
[[nodiscard]] bool freezes(const Training& training);

// ---- adapters

// One adapter on one tensor rank.
struct Adapter {
  std::string target;            // "query"
  std::string_view kernel = {};  // "qkv": the GEMM that its matrix is part of
  bool row_parallel = false;
  std::int64_t inputs = 0;   // on this rank: divided for row-parallel matrices
  std::int64_t outputs = 0;  // on this rank: divided for column-parallel matrices
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
// gate has no gate adapter. A layer with experts has only the adapters of its attention: experts,
// router and shared experts stay frozen.
[[nodiscard]] std::vector<Adapter> layer_adapters(const Architecture& architecture,
                                                  const Training& training, std::int64_t tensor,
                                                  LayerKind kind);
// True if every matrix of the layer's attention may have an adapter.
[[nodiscard]] bool takes_adapters(LayerKind kind, const Architecture& architecture);
// The adapters of the layers of one tensor rank, and the storage of their frozen matrices.
struct AdapterSet {
  std::int64_t rank = 0;  // 0: no adapters
  AdapterTargets targets = {};
  std::vector<std::pair<LayerKind, std::vector<Adapter>>> kinds = {};  // by kind of layer
  double frozen_bytes = 0.0;  // per number of those matrices (frozen_bytes)
  bool dequantises = false;
  [[nodiscard]] bool any() const { return rank > 0; }
  [[nodiscard]] const std::vector<Adapter>& of(LayerKind kind) const;
};
[[nodiscard]] AdapterSet adapter_set(const Architecture& architecture, const Training& training,
                                     std::int64_t tensor);

// Number of parameters of the adapters of the whole model, undivided.
[[nodiscard]] std::int64_t adapter_parameters(const Architecture& architecture,
                                              const Training& training);

// Bytes of one frozen parameter: the width of training, or in NF4 4 bits with an 8-bit constant for
// each block of 64 and a 32-bit one for each 256 of those: 0.5 + (8/64 + 32/(64 * 256))/8.
[[nodiscard]] double frozen_bytes(const Training& training);
// True if frozen weights have to be dequantised to the training precision before each GEMM.
[[nodiscard]] bool dequantises(const Training& training);

}  // namespace trainyard
