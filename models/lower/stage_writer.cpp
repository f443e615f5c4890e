#include "models/lower/stage_writer.hpp"

#include "models/lower/resident_memory.hpp"

namespace trainyard {

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
  UnitPlace place{.chunk = chunk.number()};
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

void StageWriter::layers_forward(const StageChunk& chunk, UnitPlace& place) {
  for (const RecomputeUnit& again : chunk.units) {
    for (std::int64_t i = again.first; i < again.first + again.layers; ++i, ++place.unit) {
      tag_layer(chunk.in_model(i));
      layers_.forward({chunk, again, i}, place);
    }
  }
  tag_layer(-1);
}

// The head, and behind it the layers of multi-token prediction, each behind what the one before it
// made and each with the head once more (DeepSeek-AI 2412.19437 section 2.2).
void StageWriter::head_forward(const StageChunk& chunk, UnitPlace& place) {
  replicas_->before_forward(place);
  ends_.head.forward();
  replicas_->after_forward(place);
  for (std::int64_t i = 0; i < chunk.further; ++i) {
    ++place.unit;
    tag_layer(chunk.in_model(chunk.layers + i));
    replicas_->before_forward(place);
    ends_.further.forward();
    layers_.further_forward(
        {chunk, chunk.further_units[static_cast<std::size_t>(i)], chunk.layers + i});
    ends_.head.forward();
    replicas_->after_forward(place);
  }
  tag_layer(-1);
}

void StageWriter::backward(const ScheduleStep& step, const Turn& turn) {
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
  further_backward(chunk, unit);
  if (unit.part != BackwardPart::Weight)
    offload_.backward_enters(
        number, chunk.layers, step.microbatch,
        chunk.units.empty() ? std::nullopt : parts_.layout.used_first(chunk, chunk.units.back()));
  enter_backward(chunk, unit);
  layers_backward(chunk, unit);
  leave_backward(chunk, unit);
  if (unit.last) gradients_.end_backward(number);
}

void StageWriter::further_backward(const StageChunk& chunk, UnitBackward& step) {
  for (std::int64_t i = chunk.further; i-- > 0;) {
    --step.place.unit;
    tag_layer(chunk.in_model(chunk.layers + i));
    replicas_->before_backward(step);
    // The head's own gradient is final with the model's backward of it, the norm's before it here.
    gradients_.add({ends_.head.backward(step.part).back()});
    gradients_.add(layers_.backward(
        {chunk, chunk.further_units[static_cast<std::size_t>(i)], chunk.layers + i}, step));
    gradients_.add(ends_.further.backward(step.part));
    gradients_.end_unit(step);
  }
  tag_layer(-1);
}

// Head and loss, or the gradient from the stage after.
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

// A frozen layer has no weight part, and one that no gradient comes back to has no backward.
void StageWriter::layers_backward(const StageChunk& chunk, UnitBackward& step) {
  for (auto again = chunk.units.rbegin(); again != chunk.units.rend(); ++again) {
    for (std::int64_t i = again->first + again->layers; i-- > again->first;) {
      --step.place.unit;
      tag_layer(chunk.in_model(i));
      if (!parts_.layout.reaches(chunk, i)) continue;
      if (step.part == BackwardPart::Weight &&
          !parts_.options.weights.trained.layer(chunk.in_model(i)))
        continue;
      replicas_->before_backward(step);
      gradients_.add(layers_.backward({chunk, *again, i}, step));
      gradients_.end_unit(step);
    }
  }
  tag_layer(-1);
}

// The embedding has a weight gradient alone; every other stage hands its input gradient on.
void StageWriter::leave_backward(const StageChunk& chunk, UnitBackward& step) {
  if (chunk.has_embedding) {
    --step.place.unit;
    if (step.part == BackwardPart::Input || !parts_.options.weights.trained.embedding) return;
    replicas_->before_backward(step);
    gradients_.add(ends_.embedding.backward());
    gradients_.end_unit(step);
  } else if (step.part != BackwardPart::Weight && parts_.layout.hands_on(chunk)) {
    messages_.send(chunk, Pass::Backward);
  }
}

}  // namespace trainyard
