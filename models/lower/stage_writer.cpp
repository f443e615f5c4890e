#include "models/lower/stage_writer.hpp"

#include "models/lower/resident_memory.hpp"

namespace trainyard {

// ---- layers

StageLayers::StageLayers(const Parts& parts)
    : parts_(parts), layer_(parts.options.layer, parts.shape, parts.build) {}

// Memory of the layer that the tags name. With uneven routing it differs from layer to layer and
// from microbatch to microbatch, since the experts get different numbers of tokens.
const LayerMemory& StageLayers::memory_of(const Tags& tags) {
  const LayerKind kind = layer_kind(parts_.options.layer.architecture, tags.layer);
  const bool experts = routes_tokens(kind);
  const bool trained = parts_.options.weights.trained.layer(tags.layer);
  const StepShape& shape = parts_.shape;
  const RoutingQuery query{.layer = tags.layer,
                           .microbatch = tags.microbatch,
                           .replica = shape.expert_rank.replica,
                           .place = shape.expert_rank.place};
  const auto key = experts ? shape.routing->key_of(query) : ExpertRouting::RowsKey{};
  const auto [known, fresh] = memories_.try_emplace({kind, key, trained});
  if (fresh) {
    std::optional<std::int64_t> rows;
    if (experts) rows = shape.routing->of(query).total();
    known->second = layer_memory(parts_.options.memory, kind, rows, trained);
  }
  return known->second;
}

// Bytes that the layer keeps from its forward to its backward. In a recomputed unit, only the first
// layer keeps anything: its input.
std::int64_t StageLayers::kept_by(const StageLayer& at, const LayerMemory& memory) const {
  if (at.unit.recomputed) return at.layer == at.unit.first ? memory.kept : 0;
  // Under full recomputation, layers outside recomputed units keep all activations.
  return parts_.options.memory.query.recompute == Recompute::Full ? memory.everything()
                                                                  : memory.kept;
}

// Bytes of the input of the layer's unit, which its first layer keeps.
std::int64_t StageLayers::unit_input(const StageLayer& at) {
  Tags tags = parts_.build.tags();
  tags.layer = at.chunk.in_model(at.unit.first);
  return memory_of(tags).kept;
}

// Whether a backward begins from what the layer keeps: the backward reaches it, or another layer of
// the unit that is recomputed from its input.
bool StageLayers::is_needed(const StageLayer& at) const {
  const RecomputeUnit& unit = at.unit;
  const std::int64_t last = unit.recomputed ? unit.first + unit.layers - 1 : at.layer;
  return parts_.layout.reaches(at.chunk, last);
}

// A layer from which no backward begins keeps nothing; its inner tensors are freed at its end.
void StageLayers::forward(const StageLayer& at, const UnitIndex& place) {
  const Tags& tags = parts_.build.tags();
  const OffloadedLayer stored{
      .chunk = place.chunk, .layer = at.layer, .unit = place.unit, .microbatch = tags.microbatch};
  const LayerMemory& memory = memory_of(tags);
  LayerLowering::ForwardMemory held{.workspace = memory.workspace};
  if (is_needed(at)) held = {.kept = kept_by(at, memory), .workspace = memory.forward_workspace};
  parts_.replicas.before_forward(place);
  parts_.offload.forward_begins(stored);
  layer_.forward(held);
  parts_.offload.forward_ended(stored, held.kept);
  parts_.replicas.after_forward(place);
}

void StageLayers::mtp_forward(const StageLayer& at) {
  const LayerMemory& memory = memory_of(parts_.build.tags());
  layer_.forward({.kept = kept_by(at, memory), .workspace = memory.forward_workspace});
}

// Writes the forward of all layers of a recompute unit once more. Each layer then holds all that
// its backward reads. The backward of the last layer follows at once, so that its weights stay on
// the GPU (offload) and whole (ZeRO 3). The weights of the other layers may be freed in between.
void StageLayers::recompute(const StageLayer& at) {
  ProgramBuilder& build = parts_.build;
  const Tags before = build.tags();
  Tags tags = before;
  tags.part = StepPart::Recompute;
  const std::int64_t end = at.unit.first + at.unit.layers;
  for (StageLayer inner{at.chunk, at.unit, at.unit.first}; inner.layer < end; ++inner.layer) {
    tags.layer = at.chunk.in_model(inner.layer);
    build.tag(tags);
    const UnitIndex place{.chunk = at.chunk.number(), .unit = at.chunk.unit_of(inner.layer)};
    if (inner.layer > at.unit.first)
      parts_.offload.weights_begin(place.chunk, place.unit,
                                   parts_.layout.recomputed_after(at.chunk, at.unit, inner.layer));
    const bool behind = inner.layer + 1 < end;  // the backward of a later layer comes first
    if (behind) parts_.replicas.before_recompute(place);
    const LayerMemory& memory = memory_of(tags);
    if (parts_.layout.reaches(at.chunk, inner.layer))
      layer_.forward({.kept = memory.everything() - kept_by(inner, memory)});
    else  // recomputed for its output alone
      layer_.forward({.workspace = memory.workspace});
    if (!behind) continue;
    parts_.offload.weights_used();
    parts_.replicas.after_recompute(place);
  }
  build.tag(before);
}

// Fetches from the host what the next kernels read, and recomputes the unit before the backward of
// its last layer. The only activation that such a unit has stored is the input of its first layer,
// so that only that one is fetched.
void StageLayers::begin_backward(const StageLayer& at, const UnitIndex& place) {
  const RecomputeUnit& unit = at.unit;
  const bool begins = at.layer == unit.first + unit.layers - 1;
  const bool repeats = unit.recomputed && begins;
  const std::int64_t read = repeats ? unit.first : at.layer;
  parts_.offload.weights_begin(place.chunk, at.chunk.unit_of(read),
                               repeats ? parts_.layout.recomputed_after(at.chunk, unit, read)
                                       : parts_.layout.used_after(at.chunk, unit, at.layer));
  if (unit.recomputed && !begins) return;
  parts_.offload.backward_begins({.chunk = place.chunk,
                                  .layer = read,
                                  .unit = place.unit,
                                  .microbatch = parts_.build.tags().microbatch});
  if (repeats) recompute(at);
}

// Memory of a backward. At the end of the input part of a split backward, the activations of the
// layer are replaced by the operands of its weight gradients (for_weights), which the weight part
// frees. A recomputed layer has allocated its activations in the recomputation; another layer
// allocates here what it rebuilds in its backward. Where the backward ends within a recomputed
// unit, its last layer frees the unit's input too, which the first layer kept.
LayerLowering::BackwardMemory StageLayers::backward_memory(const StageLayer& at, BackwardPart part,
                                                           bool trained) {
  const LayerMemory& memory = memory_of(parts_.build.tags());
  if (part == BackwardPart::Weight)
    return {.workspace = memory.weight_workspace, .freed = memory.for_weights};
  const std::int64_t stays = trained && part == BackwardPart::Input ? memory.for_weights : 0;
  const bool ends_within = at.unit.recomputed && at.layer > at.unit.first &&
                           !parts_.layout.reaches(at.chunk, at.layer - 1);
  const std::int64_t input = ends_within ? unit_input(at) : 0;
  return {.rebuilt = at.unit.recomputed ? 0 : memory.everything() - kept_by(at, memory),
          .workspace = memory.workspace,
          .freed = memory.everything() - stays + input};
}

// The backward of a frozen layer is its input part only.
std::vector<ReadyGradient> StageLayers::backward(const StageLayer& at, const UnitBackward& step) {
  const bool trained = parts_.options.weights.trained.layer(at.chunk.in_model(at.layer));
  const BackwardPart part = trained ? step.part : BackwardPart::Input;
  if (part != BackwardPart::Weight) begin_backward(at, step.place);
  const std::vector<ReadyGradient> gradients =
      layer_.backward(part, backward_memory(at, part, trained));
  if (part != BackwardPart::Weight) parts_.offload.weights_used();
  return trained ? gradients : std::vector<ReadyGradient>{};
}

// ---- steps
//
// A forward visits the units of a chunk in order, a backward in reverse. The data-parallel scheme
// is called around each unit, and the tags name the layer whose operations are written (-1: none).

StageWriter::StageWriter(const Parts& parts)
    : parts_(parts),
      build_(parts.build),
      weights_(stage_weights(parts.options, parts.layout)),
      parameters_(stage_parameters(parts.options, parts.layout, weights_)),
      replicas_(
          make_data_parallel({parts.options.replicas, parts.shape, build_, weights_, parameters_})),
      offload_(parts.options.offload, parts.options.weights, weights_, build_),
      messages_(parts.options.messages, parts.shape, parts.layout, build_),
      ends_(parts.options.ends, parts.options.layer, parts.shape, build_),
      layers_({parts.options, parts.shape, parts.layout, build_, *replicas_, offload_}),
      gradients_(GradientLowering(parts.options.replicas.gradients, parts.shape, build_), weights_,
                 *replicas_) {}

void StageWriter::begin() {
  hold_stage_memory(parts_.options, weights_, parameters_, build_);
  replicas_->begin_step();
}

void StageWriter::tag_layer(std::int32_t layer) {
  Tags tags = build_.tags();
  tags.layer = layer;
  build_.tag(tags);
}

void StageWriter::forward(const ScheduleStep& step) {
  const StageChunk& chunk = parts_.layout.chunk(step.chunk);
  UnitIndex place{.chunk = chunk.number()};
  build_.tag({.part = StepPart::Forward, .microbatch = step.microbatch});
  offload_.forward_enters(place.chunk);
  if (chunk.has_embedding) {
    replicas_->before_forward(place);
    ends_.embedding.forward();
    replicas_->after_forward(place);
    ++place.unit;
  } else {
    messages_.receive(chunk, Pass::Forward);
  }
  layers_forward(chunk, place);
  if (chunk.has_head) {
    head_forward(chunk, place);
  } else {
    messages_.send(chunk, Pass::Forward);
  }
}

void StageWriter::layers_forward(const StageChunk& chunk, UnitIndex& place) {
  for (const RecomputeUnit& unit : chunk.units) {
    for (std::int64_t i = unit.first; i < unit.first + unit.layers; ++i, ++place.unit) {
      tag_layer(chunk.in_model(i));
      layers_.forward({chunk, unit, i}, place);
    }
  }
  tag_layer(-1);
}

// The LM head, then the layers of multi-token prediction. Each of these takes the output of the one
// before it, and its own output goes through the head once more (DeepSeek-AI 2412.19437 section
// 2.2).
void StageWriter::head_forward(const StageChunk& chunk, UnitIndex& place) {
  replicas_->before_forward(place);
  ends_.head.forward();
  replicas_->after_forward(place);
  for (std::int64_t i = 0; i < chunk.mtp_layers; ++i) {
    ++place.unit;
    tag_layer(chunk.in_model(chunk.layers + i));
    replicas_->before_forward(place);
    ends_.mtp.forward();
    layers_.mtp_forward({chunk, chunk.mtp_units[static_cast<std::size_t>(i)], chunk.layers + i});
    ends_.head.forward();
    replicas_->after_forward(place);
  }
  tag_layer(-1);
}

void StageWriter::backward(const ScheduleStep& step, const FirstOrLast& turn) {
  const StageChunk& chunk = parts_.layout.chunk(step.chunk);
  if (!parts_.layout.has_backward(chunk)) return;
  const std::size_t number = chunk.number();
  UnitBackward unit{.place = {.chunk = number, .unit = weights_[number].units.size()},
                    .first = turn.first,
                    .last = turn.last};
  if (step.kind == StepKind::BackwardInput) unit.part = BackwardPart::Input;
  if (step.kind == StepKind::BackwardWeight) unit.part = BackwardPart::Weight;
  gradients_.begin_backward();
  build_.tag({.part = StepPart::Backward, .microbatch = step.microbatch});
  mtp_backward(chunk, unit);
  if (unit.part != BackwardPart::Weight)
    offload_.backward_enters(
        number, chunk.layers, step.microbatch,
        chunk.units.empty() ? std::nullopt : parts_.layout.used_first(chunk, chunk.units.back()));
  enter_backward(chunk, unit);
  layers_backward(chunk, unit);
  leave_backward(chunk, unit);
  if (unit.last) gradients_.end_backward(number);
}

// Backward of the layers of multi-token prediction, each with its pass through the head.
void StageWriter::mtp_backward(const StageChunk& chunk, UnitBackward& step) {
  for (std::int64_t i = chunk.mtp_layers; i-- > 0;) {
    --step.place.unit;
    tag_layer(chunk.in_model(chunk.layers + i));
    replicas_->before_backward(step);
    // The head returns the gradients of its matrix and of the norm before it. The norm belongs to
    // this layer (MtpEntries::behind), so that its gradient is final here. The gradient of the
    // matrix is final only after the main backward of the head.
    gradients_.add({ends_.head.backward(step.part).back()});
    gradients_.add(layers_.backward(
        {chunk, chunk.mtp_units[static_cast<std::size_t>(i)], chunk.layers + i}, step));
    gradients_.add(
        ends_.mtp.backward(step.part, mtp_entries(parts_.options.weights, i).before.size()));
    gradients_.end_unit(step);
  }
  tag_layer(-1);
}

// The backward of head and loss, or the receive of the gradient from the next stage.
void StageWriter::enter_backward(const StageChunk& chunk, UnitBackward& step) {
  if (chunk.has_head) {
    --step.place.unit;
    replicas_->before_backward(step);
    gradients_.add(ends_.head.backward(step.part));
    gradients_.end_unit(step);
  } else if (step.part != BackwardPart::Weight) {
    messages_.receive(chunk, Pass::Backward);
  }
}

// The backward of the layers, from the last to the first. A frozen layer has no weight part, and a
// layer that the backward does not reach has no backward at all.
void StageWriter::layers_backward(const StageChunk& chunk, UnitBackward& step) {
  for (auto unit = chunk.units.rbegin(); unit != chunk.units.rend(); ++unit) {
    for (std::int64_t i = unit->first + unit->layers; i-- > unit->first;) {
      --step.place.unit;
      tag_layer(chunk.in_model(i));
      if (!parts_.layout.reaches(chunk, i)) continue;
      if (step.part == BackwardPart::Weight &&
          !parts_.options.weights.trained.layer(chunk.in_model(i)))
        continue;
      replicas_->before_backward(step);
      gradients_.add(layers_.backward({chunk, *unit, i}, step));
      gradients_.end_unit(step);
    }
  }
  tag_layer(-1);
}

// The backward of the embedding, which has only a weight gradient, or the send of the input
// gradient to the stage before.
void StageWriter::leave_backward(const StageChunk& chunk, UnitBackward& step) {
  if (chunk.has_embedding) {
    --step.place.unit;
    if (step.part == BackwardPart::Input || !parts_.options.weights.trained.embedding) return;
    replicas_->before_backward(step);
    gradients_.add(ends_.embedding.backward());
    gradients_.end_unit(step);
  } else if (step.part != BackwardPart::Weight && parts_.layout.sends_gradient(chunk)) {
    messages_.send(chunk, Pass::Backward);
  }
}

}  // namespace trainyard
