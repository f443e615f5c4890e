#include "models/lower/stage_layers.hpp"

namespace trainyard {

StageLayers::StageLayers(const Parts& parts)
    : parts_(parts), layer_(parts.options.layer, parts.shape, parts.build) {}

// The experts' rows differ from layer to layer where routing is uneven.
const LayerMemory& StageLayers::memory_of(const Tags& tags) {
  const LayerKind kind = parts_.options.layer.architecture.kind_of(tags.layer);
  const bool experts = kind == LayerKind::Moe;
  const bool trained = parts_.options.weights.trained.layer(tags.layer);
  const StepShape& shape = parts_.shape;
  const RoutingQuery query{.layer = tags.layer,
                           .microbatch = tags.microbatch,
                           .replica = shape.seat.replica,
                           .place = shape.seat.place};
  const auto key = experts ? shape.routing->key_of(query) : ExpertRouting::RowsKey{};
  const auto [known, fresh] = memories_.try_emplace({experts, key, trained});
  if (fresh) {
    std::optional<std::int64_t> rows;
    if (experts) rows = shape.routing->of(query).total();
    known->second = layer_memory(parts_.options.memory, kind, rows, trained);
  }
  return known->second;
}

// Bytes that the layer keeps from its forward to its backward.
std::int64_t StageLayers::kept_by(const StageLayer& at, const LayerMemory& memory) const {
  if (at.again.again) return at.layer == at.again.first ? memory.kept : 0;
  // Beside layers that are computed again as a whole, the others keep everything.
  return parts_.options.memory.query.recompute == Recompute::Full ? memory.everything()
                                                                  : memory.kept;
}

// A layer that no gradient will come back to keeps nothing: it holds its inner tensors until its
// end.
void StageLayers::forward(const StageLayer& at, const UnitPlace& place) {
  const Tags& tags = parts_.build.tags();
  const OffloadPlace stored{
      .chunk = place.chunk, .layer = at.layer, .unit = place.unit, .microbatch = tags.microbatch};
  const LayerMemory& memory = memory_of(tags);
  LayerLowering::ForwardMemory held{.beside = memory.workspace};
  if (parts_.layout.reaches(at.chunk, at.layer))
    held = {.kept = kept_by(at, memory), .beside = memory.forward_workspace};
  parts_.replicas.before_forward(place);
  parts_.offload.forward_begins(stored);
  layer_.forward(held);
  parts_.offload.forward_ended(stored, held.kept);
  parts_.replicas.after_forward(place);
}

void StageLayers::further_forward(const StageLayer& at) {
  const LayerMemory& memory = memory_of(parts_.build.tags());
  layer_.forward({.kept = kept_by(at, memory), .beside = memory.forward_workspace});
}

// The unit's layers once more. The last one's weights stay for its backward.
void StageLayers::compute_again(const StageLayer& at) {
  ProgramBuilder& build = parts_.build;
  const Tags before = build.tags();
  Tags tags = before;
  tags.part = StepPart::Recompute;
  const std::int64_t end = at.again.first + at.again.layers;
  for (StageLayer again{at.chunk, at.again, at.again.first}; again.layer < end; ++again.layer) {
    tags.layer = at.chunk.in_model(again.layer);
    build.tag(tags);
    const UnitPlace place{.chunk = at.chunk.number(), .unit = at.chunk.unit_of(again.layer)};
    if (again.layer > at.again.first)
      parts_.offload.weights_begin(place.chunk, place.unit,
                                   parts_.layout.used_again_after(at.chunk, at.again, again.layer));
    const bool behind = again.layer + 1 < end;  // a layer whose backward comes first
    if (behind) parts_.replicas.before_again(place);
    const LayerMemory& memory = memory_of(tags);
    layer_.forward({.kept = memory.everything() - kept_by(again, memory)});
    if (!behind) continue;
    parts_.offload.weights_used();
    parts_.replicas.after_again(place);
  }
  build.tag(before);
}

// Brings what its kernels read from the host, and runs the forward once more if it has to.
void StageLayers::begin_backward(const StageLayer& at, const UnitPlace& place) {
  const RecomputeUnit& again = at.again;
  const bool begins = at.layer == again.first + again.layers - 1;
  const bool repeats = again.again && begins;
  const std::int64_t read = repeats ? again.first : at.layer;
  parts_.offload.weights_begin(place.chunk, at.chunk.unit_of(read),
                               repeats ? parts_.layout.used_again_after(at.chunk, again, read)
                                       : parts_.layout.used_after(at.chunk, again, at.layer));
  if (again.again && !begins) return;
  parts_.offload.backward_begins({.chunk = place.chunk,
                                  .layer = read,
                                  .unit = place.unit,
                                  .microbatch = parts_.build.tags().microbatch});
  if (repeats) compute_again(at);
}

// A split backward trades, at the end of its input part, what the layer kept for what its weight
// gradients read.
LayerLowering::BackwardMemory StageLayers::backward_memory(const StageLayer& at, BackwardPart part,
                                                           bool trained) {
  const LayerMemory& memory = memory_of(parts_.build.tags());
  if (part == BackwardPart::Weight)
    return {.beside = memory.weight_workspace, .freed = memory.for_weights};
  const std::int64_t stays = trained && part == BackwardPart::Input ? memory.for_weights : 0;
  return {.rebuilt = at.again.again ? 0 : memory.everything() - kept_by(at, memory),
          .beside = memory.workspace,
          .freed = memory.everything() - stays};
}

std::vector<ReadyGradient> StageLayers::backward(const StageLayer& at, const UnitBackward& step) {
  const bool trained = parts_.options.weights.trained.layer(at.chunk.in_model(at.layer));
  const BackwardPart part = trained ? step.part : BackwardPart::Input;
  if (part != BackwardPart::Weight) begin_backward(at, step.place);
  std::vector<ReadyGradient> gradients = layer_.backward(part, backward_memory(at, part, trained));
  if (part != BackwardPart::Weight) parts_.offload.weights_used();
  return trained ? gradients : std::vector<ReadyGradient>{};
}

}  // namespace trainyard
