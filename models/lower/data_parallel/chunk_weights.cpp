#include "models/lower/data_parallel/chunk_weights.hpp"

#include <algorithm>
#include <string_view>

#include "models/adapters.hpp"
#include "models/frozen.hpp"
#include "models/lower/ends.hpp"
#include "models/lower/entries.hpp"

namespace trainyard {

namespace {

// Of the adapters on one kernel's matrices: both factors.
GradientEntry adapter_entry(const std::vector<Adapter>& adapters,
                            const std::vector<std::string_view>& targets) {
  GradientEntry entry;
  for (const Adapter& adapter : adapters) {
    if (std::find(targets.begin(), targets.end(), adapter.target) == targets.end()) continue;
    entry.tensors.push_back({.rows = adapter.outputs, .columns = adapter.rank});
    entry.tensors.push_back({.rows = adapter.rank, .columns = adapter.inputs});
  }
  return entry;
}

// The same places as the frozen matrices and norms have, of which nothing is trained.
std::vector<GradientEntry> adapter_entries(const TrainingPlan& plan) {
  const std::vector<Adapter> all =
      layer_adapters(plan.architecture, plan.training, plan.parallelism.tensor);
  return {adapter_entry(all, {"down"}),
          adapter_entry(all, {"gate", "up"}),
          {},
          adapter_entry(all, {"projection"}),
          adapter_entry(all, {"query", "key", "value"}),
          {}};
}

void append_unit(ChunkWeights& weights, const std::vector<GradientEntry>& entries,
                 std::int32_t layer, const std::vector<GradientEntry>& experts = {}) {
  WeightUnit unit{.begin = weights.entries.size(), .layer = layer};
  unit.experts_begin = weights.experts.size();
  weights.entries.insert(weights.entries.end(), entries.begin(), entries.end());
  weights.experts.insert(weights.experts.end(), experts.begin(), experts.end());
  unit.end = weights.entries.size();
  unit.experts_end = weights.experts.size();
  weights.units.insert(weights.units.begin(), unit);
}

// A layer that predicts a token further ahead, with what stands around it.
void append_further(ChunkWeights& weights, const TrainingPlan& plan, std::int64_t number) {
  const std::int64_t layer = plan.architecture.layers + number;
  const LayerKind kind = plan.architecture.kind_of(layer);
  const FurtherEntries further = further_entries(plan);
  std::vector<GradientEntry> entries = further.behind;
  for (const GradientEntry& entry : layer_entries(plan, kind)) entries.push_back(entry);
  entries.insert(entries.end(), further.before.begin(), further.before.end());
  append_unit(weights, entries, static_cast<std::int32_t>(layer), expert_entries(plan, kind));
}

}  // namespace

std::int64_t GradientEntry::parameters() const {
  std::int64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += tensor.elements();
  return sum;
}

std::int64_t ChunkWeights::parameters(const WeightUnit& unit) const {
  std::int64_t sum = 0;
  for (std::size_t i = unit.begin; i < unit.end; ++i) sum += entries[i].parameters();
  return sum;
}

std::int64_t ChunkWeights::parameters() const {
  std::int64_t sum = 0;
  for (const GradientEntry& entry : entries) sum += entry.parameters();
  return sum;
}

std::int64_t ChunkWeights::expert_parameters() const {
  std::int64_t sum = 0;
  for (const GradientEntry& entry : experts) sum += entry.parameters();
  return sum;
}

ChunkWeights chunk_weights(const TrainingPlan& plan, const ChunkLayers& layers) {
  const Architecture& a = plan.architecture;
  const EndParameters ends = end_parameters(plan);
  ChunkWeights weights;
  if (layers.has_head)
    for (std::int64_t i = plan.training.mtp_layers; i-- > 0;) append_further(weights, plan, i);
  if (layers.has_head && !trains_head(plan)) {
    append_unit(weights, {}, -1);
  } else if (layers.has_head) {
    std::vector<GradientEntry> head;
    if (ends.head > 0)
      head.push_back({.tensors = {{.rows = ends.head / a.hidden, .columns = a.hidden}}});
    head.push_back(norm_entry(a));
    append_unit(weights, head, -1);
  }
  for (std::int64_t i = layers.layers; i-- > 0;) {
    const std::int64_t layer = layers.first_layer + i;
    const LayerKind kind = a.kind_of(layer);
    const bool adapted = plan.training.lora_rank > 0;
    if (!trains_layer(plan, layer)) {
      append_unit(weights, {}, static_cast<std::int32_t>(layer));
      continue;
    }
    append_unit(weights, adapted ? adapter_entries(plan) : layer_entries(plan, kind),
                static_cast<std::int32_t>(layer), expert_entries(plan, kind));
  }
  if (layers.has_embedding && !trains_embedding(plan)) {
    append_unit(weights, {}, -1);
  } else if (layers.has_embedding) {
    GradientEntry embedding;
    if (ends.positions > 0)
      embedding.tensors.push_back({.rows = ends.positions / a.hidden, .columns = a.hidden});
    embedding.tensors.push_back({.rows = ends.embedding / a.hidden, .columns = a.hidden});
    append_unit(weights, {embedding}, -1);
  }
  return weights;
}

}  // namespace trainyard
