#include "models/adapters.hpp"

#include <algorithm>

namespace trainyard {

namespace {

struct Target {
  std::string name;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  bool row_parallel = false;
};

std::vector<Target> targets(const Architecture& a, LayerKind kind) {
  std::vector<Target> all = {{"query", a.hidden, a.query_width()},
                             {"key", a.hidden, a.kv_width()},
                             {"value", a.hidden, a.kv_width()},
                             {"projection", a.output_width(), a.hidden, true}};
  if (kind == LayerKind::Moe) return all;
  if (a.gated_ffn) all.push_back({"gate", a.hidden, a.ffn});
  all.push_back({"up", a.hidden, a.ffn});
  all.push_back({"down", a.ffn, a.hidden, true});
  return all;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::vector<std::string> adapter_target_names() {
  return {"query", "key", "value", "projection", "gate", "up", "down"};
}

std::vector<Adapter> layer_adapters(const Architecture& a, const Training& training,
                                    std::int64_t tensor, LayerKind kind) {
  std::vector<Adapter> adapters;
  if (training.lora_rank == 0) return adapters;
  for (const Target& target : targets(a, kind)) {
    if (!contains(training.lora_targets, target.name)) continue;
    adapters.push_back({.target = target.name,
                        .inputs = target.row_parallel ? target.inputs / tensor : target.inputs,
                        .outputs = target.row_parallel ? target.outputs : target.outputs / tensor,
                        .rank = training.lora_rank});
  }
  return adapters;
}

bool AdapterSet::on(const std::string& target) const { return contains(targets, target); }

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
