// Layers of multi-token prediction on the last stage: units behind the head (DeepSeek-AI 2412.19437
// section 2.2).
#include "models/lower/stage.hpp"

namespace trainyard {

void StageLowering::further_layer(const RecomputeUnit& again, std::int64_t layer) {
  const OpIndex first = build_.next();
  layer_.forward();
  const LayerMemory& memory = memory_of(build_.tags());
  build_.allocate(first, Category::Activations, kept_by(again, layer, memory));
  if (memory.forward_workspace == 0) return;
  build_.allocate(first, Category::Workspace, memory.forward_workspace);
  build_.release(build_.last_compute(), Category::Workspace, memory.forward_workspace);
}

// Layers of multi-token prediction, each behind what the one before it made, and each with the
// head.
void StageLowering::further_forward(const Chunk& chunk, UnitPlace place) {
  Tags tags = build_.tags();
  for (std::int64_t i = 0; i < chunk.further; ++i) {
    ++place.unit;
    tags.layer = static_cast<std::int32_t>(chunk.first_layer + chunk.layers + i);
    build_.tag(tags);
    replicas_->before_forward(place);
    ends_.further_forward();
    further_layer(chunk.further_units[static_cast<std::size_t>(i)], chunk.layers + i);
    ends_.head_forward();
    replicas_->after_forward(place);
  }
  tags.layer = -1;
  build_.tag(tags);
}

// `step` comes as the place behind the last unit and leaves as that of the first of these.
void StageLowering::further_backward(const Chunk& chunk, UnitBackward& step) {
  Tags tags = build_.tags();
  for (std::int64_t i = chunk.further; i-- > 0;) {
    --step.place.unit;
    tags.layer = static_cast<std::int32_t>(chunk.first_layer + chunk.layers + i);
    build_.tag(tags);
    replicas_->before_backward(step);
    std::vector<ReadyGradient> head;  // final with the model's own backward of it
    ends_.head_backward(step.part, &head);
    ready_.push_back(head.back());
    const RecomputeUnit& again = chunk.further_units[static_cast<std::size_t>(i)];
    write_layer_backward(chunk, again, chunk.layers + i, step);
    ends_.further_backward(step.part, &ready_);
    end_unit(step);
  }
  tags.layer = -1;
  build_.tag(tags);
}

}  // namespace trainyard
