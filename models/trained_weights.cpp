#include "models/trained_weights.hpp"

#include <algorithm>
#include <utility>

#include "models/architecture/weights.hpp"
#include "models/layers/layer_block.hpp"

namespace trainyard {

namespace {

std::int64_t first_trained(const TrainedWeights& trained, std::int64_t layers) {
  if (trained.embedding) return -1;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    if (trained.layer(layer)) return layer;
  return trained.head ? layers : layers + 1;
}

}  // namespace

bool TrainedWeights::layer(std::int64_t number) const {
  return std::ranges::find(frozen_layers, number) == frozen_layers.end();
}

TrainedWeights trained_weights(const TrainingPlan& plan) {
  const Training& training = plan.training;
  TrainedWeights trained{.embedding = training.lora_rank == 0 && !training.frozen_embedding,
                         .head = training.lora_rank == 0 && !training.frozen_head,
                         .frozen_layers = training.frozen_layers};
  trained.first = first_trained(trained, plan.architecture.layers);
  return trained;
}

bool freezes(const Training& training) {
  return training.frozen_embedding || training.frozen_head || !training.frozen_layers.empty();
}

std::vector<Adapter> layer_adapters(const Architecture& a, const Training& training,
                                    std::int64_t tensor, LayerKind kind) {
  std::vector<Adapter> adapters;
  if (training.lora_rank == 0) return adapters;
  for (const Weight& weight : layer_weights(a, kind)) {
    const bool row = weight.split == Split::Row;
    for (bool AdapterTargets::*const target : weight.adapters) {
      if (target == nullptr || !(training.lora_targets.*target)) continue;
      adapters.push_back({.target = std::string(word_for(kAdapterTargets, target)),
                          .kernel = weight.gemm,
                          .row_parallel = row,
                          .inputs = row ? weight.inputs / tensor : weight.inputs,
                          .outputs = row ? weight.outputs : weight.outputs / weight.parts / tensor,
                          .rank = training.lora_rank});
    }
  }
  return adapters;
}

bool takes_adapters(LayerKind kind, const Architecture& architecture) {
  return std::ranges::none_of(layer_weights(architecture, kind), [](const Weight& weight) {
    return weight.part == WeightPart::Attention && weight.adapters.front() == nullptr;
  });
}

const std::vector<Adapter>& AdapterSet::of(LayerKind kind) const {
  static const std::vector<Adapter> none;
  const auto found =
      std::ranges::find(kinds, kind, &std::pair<LayerKind, std::vector<Adapter>>::first);
  return found == kinds.end() ? none : found->second;
}

AdapterSet adapter_set(const Architecture& architecture, const Training& training,
                       std::int64_t tensor) {
  AdapterSet set{.rank = training.lora_rank,
                 .targets = training.lora_targets,
                 .kinds = {},
                 .frozen_bytes = frozen_bytes(training),
                 .dequantises = dequantises(training)};
  if (training.lora_rank == 0) return set;
  for (const auto& [kind, layers] : layer_kinds(architecture))
    set.kinds.emplace_back(kind, layer_adapters(architecture, training, tensor, kind));
  return set;
}

std::int64_t adapter_parameters(const Architecture& architecture, const Training& training) {
  std::int64_t sum = 0;
  for (const auto& [kind, layers] : layer_kinds(architecture))
    for (const Adapter& adapter : layer_adapters(architecture, training, 1, kind))
      sum += layers * adapter.parameters();
  return sum;
}

double frozen_bytes(const Training& training) {
  if (!dequantises(training)) return element_bytes(training.precision);
  // NF4: 4 bits, an 8-bit constant per block of 64, and a 32-bit constant per 256 of these blocks.
  constexpr double kBlock = 64.0;
  constexpr double kBlocks = 256.0;
  constexpr double kBitsPerByte = 8.0;
  return (4.0 + 8.0 / kBlock + 32.0 / (kBlock * kBlocks)) / kBitsPerByte;
}

bool dequantises(const Training& training) { return training.frozen_weights == FrozenFormat::Nf4; }

}  // namespace trainyard
