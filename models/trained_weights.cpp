#include "models/trained_weights.hpp"

#include <algorithm>

namespace trainyard {

namespace {

std::int64_t first_trained(const TrainedWeights& trained, std::int64_t layers) {
  if (trained.embedding) return -1;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    if (trained.layer(layer)) return layer;
  return trained.head ? layers : layers + 1;
}

struct Target {
  bool AdapterTargets::*target;
  std::string_view kernel;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  bool row_parallel = false;
};

std::vector<Target> targets(const Architecture& a, LayerKind kind) {
  using T = AdapterTargets;
  std::vector<Target> all = {{&T::query, "qkv", a.hidden, a.query_width()},
                             {&T::key, "qkv", a.hidden, a.kv_width()},
                             {&T::value, "qkv", a.hidden, a.kv_width()},
                             {&T::projection, "projection", a.output_width(), a.hidden, true}};
  if (kind == LayerKind::Moe) return all;
  if (a.gated_ffn) all.push_back({&T::gate, "ffn_up", a.hidden, a.ffn});
  all.push_back({&T::up, "ffn_up", a.hidden, a.ffn});
  all.push_back({&T::down, "ffn_down", a.ffn, a.hidden, true});
  return all;
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
  for (const Target& one : targets(a, kind)) {
    if (!(training.lora_targets.*one.target)) continue;
    adapters.push_back({.target = std::string(word_for(kAdapterTargets, one.target)),
                        .kernel = one.kernel,
                        .row_parallel = one.row_parallel,
                        .inputs = one.row_parallel ? one.inputs / tensor : one.inputs,
                        .outputs = one.row_parallel ? one.outputs : one.outputs / tensor,
                        .rank = training.lora_rank});
  }
  return adapters;
}

AdapterSet adapter_set(const Architecture& architecture, const Training& training,
                       std::int64_t tensor) {
  return {.rank = training.lora_rank,
          .targets = training.lora_targets,
          .dense = layer_adapters(architecture, training, tensor, LayerKind::Dense),
          .experts = layer_adapters(architecture, training, tensor, LayerKind::Moe),
          .frozen_bytes = frozen_bytes(training),
          .dequantises = dequantises(training)};
}

std::int64_t adapter_parameters(const Architecture& architecture, const Training& training) {
  std::int64_t sum = 0;
  for (std::int64_t layer = 0; layer < architecture.layers; ++layer)
    for (const Adapter& adapter :
         layer_adapters(architecture, training, 1, architecture.kind_of(layer)))
      sum += adapter.parameters();
  return sum;
}

double frozen_bytes(const Training& training) {
  if (!dequantises(training)) return element_bytes(training.precision);
  constexpr double kBlock = 64.0;
  constexpr double kBlocks = 256.0;
  constexpr double kBitsPerByte = 8.0;
  return (4.0 + 8.0 / kBlock + 32.0 / (kBlock * kBlocks)) / kBitsPerByte;
}

bool dequantises(const Training& training) { return training.frozen_weights == FrozenFormat::Nf4; }

}  // namespace trainyard
