#include "models/lower/stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "models/context_shape.hpp"
#include "models/expert_routing.hpp"
#include "models/frozen.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

std::string program_name(const TrainingPlan& plan, const StagePlace& place) {
  if (context_shape(plan.parallelism).programs == 1) return fmt::format("stage {}", place.stage);
  return fmt::format("stage {} ring {}", place.stage, place.ring_place);
}

StepShape shape_at(const TrainingPlan& plan, const StagePlace& place) {
  StepShape shape(plan, place.ring_place);
  shape.routing = place.routing;
  shape.seat = place.seat;
  shape.replica = place.replica;
  return shape;
}

}  // namespace

StageLowering::StageLowering(const TrainingPlan& plan, const std::vector<std::int64_t>& split,
                             const StagePlace& place, Interner& interner)
    : plan_(plan),
      shape_(shape_at(plan, place)),
      pipeline_(pipeline_shape(plan)),
      build_(interner, program_name(plan, place), static_cast<std::uint32_t>(place.stage)),
      layer_(plan, shape_, build_),
      ends_(plan, shape_, build_),
      stage_(place.stage),
      offload_(plan_, weights_, build_) {
  for (std::int64_t number = 0; number < pipeline_.chunks; ++number) {
    chunks_.push_back(make_chunk(number, split));
    weights_.push_back(weights_of(chunks_.back()));
  }
  parameters_ = stage_parameters();
  replicas_ = make_data_parallel({plan_, shape_, build_, weights_, parameters_});
}

StageLowering::Chunk StageLowering::make_chunk(std::int64_t number,
                                               const std::vector<std::int64_t>& split) const {
  Chunk chunk;
  chunk.place = {.rank = stage_, .chunk = number};
  chunk.stage = stage_of(pipeline_, chunk.place);
  const auto begin = split.begin();
  chunk.first_layer = std::accumulate(begin, begin + chunk.stage, std::int64_t{0});
  chunk.layers = split[static_cast<std::size_t>(chunk.stage)];
  chunk.has_embedding = !place_before(pipeline_, chunk.place).has_value();
  chunk.has_head = !place_after(pipeline_, chunk.place).has_value();
  chunk.further = chunk.has_head ? plan_.training.mtp_layers : 0;
  chunk.units = recompute_units(
      plan_.training,
      {.first = chunk.first_layer, .layers = chunk.layers, .further = chunk.further});
  chunk.further_units.assign(chunk.units.end() - chunk.further, chunk.units.end());
  chunk.units.erase(chunk.units.end() - chunk.further, chunk.units.end());
  const MicrobatchRange microbatches = microbatches_of(pipeline_, number);
  chunk.microbatches = chunk.backwards_left = microbatches.end - microbatches.begin;
  return chunk;
}

Program StageLowering::lower(const std::vector<ScheduleStep>& steps) {
  hold_memory();
  replicas_->begin_step();
  for (std::size_t at = 0; at < steps.size();) {
    const std::size_t count = steps_of_block(steps, at);
    write_block(std::span(steps).subspan(at, count), is_overlapped(steps, at));
    at += count;
  }
  step_begins_.push_back(build_.next());
  replicas_->end_step();
  return build_.take();
}

// A forward and the backward after it run as one block where the schedule says so and experts have
// something to hide. The chunk's last backward stays whole, and so does a block in which replicas
// exchange: they name its operations later.
bool StageLowering::is_overlapped(const std::vector<ScheduleStep>& steps, std::size_t at) const {
  if (!steps[at].overlapped || at + 1 == steps.size() || plan_.parallelism.zero_stage > 1)
    return false;
  const Chunk& backward = chunks_[static_cast<std::size_t>(steps[at + 1].chunk)];
  if (plan_.offload.activations > 0.0 || plan_.offload.weights) return false;
  return divides_experts(plan_.parallelism, plan_.architecture) && backward.backwards_left > 1;
}

// The experts' rows differ from layer to layer where routing is uneven.
const LayerMemory& StageLowering::memory_of(const Tags& tags) {
  const LayerKind kind = plan_.architecture.kind_of(tags.layer);
  const bool experts = kind == LayerKind::Moe;
  const bool trained = trains_layer(plan_, tags.layer);
  const RoutingQuery query{.layer = tags.layer,
                           .microbatch = tags.microbatch,
                           .replica = shape_.seat.replica,
                           .place = shape_.seat.place};
  const auto key = experts ? shape_.routing->key_of(query) : ExpertRouting::RowsKey{};
  const auto [known, fresh] = memories_.try_emplace({experts, key, trained});
  if (fresh) {
    std::optional<std::int64_t> rows;
    if (experts) rows = shape_.routing->of(query).total();
    known->second = layer_memory(plan_, kind, rows, trained);
  }
  return known->second;
}

// Overlapped, a receive is posted as early as its stream allows; else when the step before is done.
// Where stages form a ring each would then wait for its own send before it posts what its neighbour
// sends, so interleaved stages post one step ahead, as Megatron-LM does with one exchange for the
// sends of a forward and a backward and the receives of the next two. What comes round from the
// other end of the pipeline is taken at the pace of its sender, which may be a group of
// microbatches before it is used. A weight gradient exchanges nothing and holds up no receive.
void StageLowering::begin_step() {
  const bool ring = plan_.parallelism.interleave > 1;
  posted_after_ = ring ? done_before_ : exchanged_;
  done_before_ = exchanged_;
}

// What crosses between two stages, priced as the scenario says: by NCCL's send/recv, or "direct".
Call StageLowering::boundary_call() const {
  return {.op = CollectiveOp::SendRecv,
          .bytes = shape_.boundary,
          .dtype = shape_.dtype,
          .algorithm = plan_.collectives.of(GroupKind::Pipeline, CollectiveOp::SendRecv)};
}

void StageLowering::receive(const Chunk& chunk, bool forward) {
  const auto source =
      forward ? place_before(pipeline_, chunk.place) : place_after(pipeline_, chunk.place);
  if (!source || source->rank == stage_) return;  // its output is here
  const Call call = boundary_call();
  const Parallelism& p = plan_.parallelism;
  const std::int64_t end_of_ring = forward ? 0 : p.pipeline - 1;
  const bool comes_round = p.interleave > 1 && stage_ == end_of_ring;
  const OpIndex after = p.overlap_p2p || comes_round ? kNone : posted_after_;
  const bool reverse = runs_backwards(pipeline_, chunk.place.chunk);
  const Stream stream = forward ? (reverse ? Stream::RecvForwardReverse : Stream::RecvForward)
                                : (reverse ? Stream::RecvBackwardReverse : Stream::RecvBackward);
  const Slot slot = forward ? (reverse ? Slot::RecvForwardReverse : Slot::RecvForward)
                            : (reverse ? Slot::RecvBackwardReverse : Slot::RecvBackward);
  const OpIndex message =
      build_.recv(forward ? "recv_forward" : "recv_backward", stream, slot, call, {after});
  build_.wait_for(message);
  if (shape_.boundary == shape_.message || shape_.sequence_parallel) return;
  // Scatter/gather: each tensor rank received its share and the group puts them together again
  // (Narayanan et al. 2104.04473 section 4.1).
  const Call gather{.op = CollectiveOp::AllGather,
                    .bytes = shape_.message,
                    .dtype = shape_.dtype,
                    .algorithm = plan_.collectives.of(GroupKind::Tensor, CollectiveOp::AllGather)};
  build_.wait_for(build_.collective("scatter_gather_all_gather", Stream::Tensor, Slot::Tensor,
                                    gather, {message}));
}

void StageLowering::send(const Chunk& chunk, bool forward) {
  const auto target =
      forward ? place_after(pipeline_, chunk.place) : place_before(pipeline_, chunk.place);
  if (!target || target->rank == stage_) return;
  const Call call = boundary_call();
  const bool reverse = runs_backwards(pipeline_, chunk.place.chunk);
  const Stream stream = forward ? (reverse ? Stream::SendForwardReverse : Stream::SendForward)
                                : (reverse ? Stream::SendBackwardReverse : Stream::SendBackward);
  const Slot slot = forward ? (reverse ? Slot::SendForwardReverse : Slot::SendForward)
                            : (reverse ? Slot::SendBackwardReverse : Slot::SendBackward);
  const OpIndex message = build_.send(forward ? "send_forward" : "send_backward", stream, slot,
                                      call, {build_.last_compute()});
  if (!plan_.parallelism.overlap_p2p) build_.wait_for(message);
}

void StageLowering::forward(const ScheduleStep& step) {
  const Chunk& chunk = chunks_[static_cast<std::size_t>(step.chunk)];
  UnitPlace place{.chunk = static_cast<std::size_t>(step.chunk)};
  Tags tags{.part = StepPart::Forward, .microbatch = step.microbatch};
  build_.tag(tags);
  offload_.forward_enters(place.chunk);
  if (chunk.has_embedding) {
    replicas_->before_forward(place);
    ends_.embedding_forward();
    replicas_->after_forward(place);
    ++place.unit;
  } else {
    receive(chunk, true);
  }
  for (const RecomputeUnit& again : chunk.units) {
    for (std::int64_t i = again.first; i < again.first + again.layers; ++i, ++place.unit) {
      tags.layer = static_cast<std::int32_t>(chunk.first_layer + i);
      build_.tag(tags);
      layer_forward(chunk, again, i, place);
    }
  }
  tags.layer = -1;
  build_.tag(tags);
  if (chunk.has_head) {
    replicas_->before_forward(place);
    ends_.head_forward();
    replicas_->after_forward(place);
    further_forward(chunk, place);
  } else {
    send(chunk, true);
  }
}

// What no gradient will come back to keeps nothing: beside its output, the inner tensors of one
// layer at a time.
void StageLowering::layer_forward(const Chunk& chunk, const RecomputeUnit& again,
                                  std::int64_t layer, const UnitPlace& place) {
  const Tags& tags = build_.tags();
  const OffloadPlace at{
      .chunk = place.chunk, .layer = layer, .unit = place.unit, .microbatch = tags.microbatch};
  const bool kept = reaches(plan_, chunk.first_layer + layer);
  const LayerMemory& memory = memory_of(tags);
  const std::int64_t bytes = kept ? kept_by(again, layer, memory) : 0;
  replicas_->before_forward(place);
  offload_.forward_begins(at);
  const OpIndex first = build_.next();
  layer_.forward();
  build_.allocate(first, Category::Activations, bytes);
  const std::int64_t beside = kept ? memory.forward_workspace : memory.workspace;
  if (beside > 0) {
    build_.allocate(first, Category::Workspace, beside);
    build_.release(build_.last_compute(), Category::Workspace, beside);
  }
  offload_.forward_ended(at, bytes);
  replicas_->after_forward(place);
}

bool StageLowering::has_backward(const Chunk& chunk) const {
  const std::int64_t last = chunk.first_layer + chunk.layers - (chunk.has_head ? 0 : 1);
  return reaches(plan_, chunk.has_embedding ? std::max<std::int64_t>(last, -1) : last);
}

bool StageLowering::hands_on(const Chunk& chunk) const {
  return !chunk.has_embedding && reaches(plan_, chunk.first_layer - 1);
}

void StageLowering::backward(const ScheduleStep& step, const Turn& turn) {
  const auto number = static_cast<std::size_t>(step.chunk);
  const Chunk& chunk = chunks_[number];
  if (!has_backward(chunk)) return;
  UnitBackward unit{.place = {.chunk = number, .unit = weights_[number].units.size()}};
  if (step.kind == StepKind::BackwardInput) unit.part = BackwardPart::Input;
  if (step.kind == StepKind::BackwardWeight) unit.part = BackwardPart::Weight;
  unit.first = turn.first;
  unit.last = turn.last;
  ready_.clear();
  ended_ = 0;
  Tags tags{.part = StepPart::Backward, .microbatch = step.microbatch};
  build_.tag(tags);
  further_backward(chunk, unit);
  if (chunk.has_head) --unit.place.unit;
  if (unit.part != BackwardPart::Weight)
    offload_.backward_enters(
        number, chunk.layers, step.microbatch,
        chunk.units.empty() ? std::nullopt : used_first(chunk, chunk.units.back()));
  enter_backward(chunk, unit);
  for (auto again = chunk.units.rbegin(); again != chunk.units.rend(); ++again) {
    for (std::int64_t i = again->first + again->layers; i-- > again->first;) {
      --unit.place.unit;
      tags.layer = static_cast<std::int32_t>(chunk.first_layer + i);
      build_.tag(tags);
      layer_backward(chunk, *again, i, unit);
    }
  }
  tags.layer = -1;
  build_.tag(tags);
  if (chunk.has_embedding) --unit.place.unit;
  leave_backward(chunk, unit);
  const std::size_t entries = weights_[number].entries.size() + weights_[number].experts.size();
  TY_CHECK(!unit.last || ready_.size() == entries, ready_.size(), entries);
}

// What the first microbatch leaves is kept as it is.
void StageLowering::end_unit(const UnitBackward& step) {
  if (step.part != BackwardPart::Input && !step.first)
    GradientLowering(plan_, shape_, build_)
        .accumulate(weights_[step.place.chunk].all_parameters(step.place.unit),
                    std::span(ready_).subspan(ended_));
  ended_ = ready_.size();
  replicas_->after_backward(step, ready_);
}

// Head and loss, or the gradient from the stage after.
void StageLowering::enter_backward(const Chunk& chunk, const UnitBackward& step) {
  if (chunk.has_head) {
    replicas_->before_backward(step);
    ends_.head_backward(step.part, &ready_);
    end_unit(step);
  } else if (step.part != BackwardPart::Weight) {
    receive(chunk, false);
  }
}

// The embedding has a weight gradient alone; every other stage hands its input gradient on.
void StageLowering::leave_backward(const Chunk& chunk, const UnitBackward& step) {
  if (chunk.has_embedding) {
    if (step.part == BackwardPart::Input || !trains_embedding(plan_)) return;
    replicas_->before_backward(step);
    ends_.embedding_backward(&ready_);
    end_unit(step);
  } else if (step.part != BackwardPart::Weight && hands_on(chunk)) {
    send(chunk, false);
  }
}

std::size_t StageLowering::unit_of(const Chunk& chunk, std::int64_t layer) {
  return static_cast<std::size_t>(layer + (chunk.has_embedding ? 1 : 0));
}

// Nothing where no gradient comes back to them. What is computed again begins with its first layer.
std::optional<std::size_t> StageLowering::used_first(const Chunk& chunk,
                                                     const RecomputeUnit& again) const {
  const std::int64_t last = again.first + again.layers - 1;
  if (!reaches(plan_, chunk.first_layer + last)) return std::nullopt;
  return unit_of(chunk, again.again ? again.first : last);
}

std::optional<std::size_t> StageLowering::used_after(const Chunk& chunk, const RecomputeUnit& again,
                                                     std::int64_t layer) const {
  if (layer > again.first) {
    if (!reaches(plan_, chunk.first_layer + layer - 1)) return std::nullopt;
    return unit_of(chunk, layer - 1);
  }
  const auto unit = std::ranges::lower_bound(chunk.units, again.first, {}, &RecomputeUnit::first);
  if (unit == chunk.units.begin()) return std::nullopt;
  return used_first(chunk, *std::prev(unit));
}

std::optional<std::size_t> StageLowering::used_again_after(const Chunk& chunk,
                                                           const RecomputeUnit& again,
                                                           std::int64_t layer) const {
  const bool last = layer + 1 == again.first + again.layers;
  return last ? used_after(chunk, again, layer) : unit_of(chunk, layer + 1);
}

// What layer `layer` of a chunk keeps from its forward to its backward.
std::int64_t StageLowering::kept_by(const RecomputeUnit& unit, std::int64_t layer,
                                    const LayerMemory& memory) const {
  if (unit.again) return layer == unit.first ? memory.kept : 0;
  // Beside layers that are computed again as a whole, the others keep everything.
  return plan_.training.recompute == Recompute::Full ? memory.everything() : memory.kept;
}

// The unit's layers once more, in order, each keeping all that its backward reads. The last one's
// weights stay for its backward.
void StageLowering::compute_again(const Chunk& chunk, const RecomputeUnit& unit,
                                  std::size_t number) {
  const Tags before = build_.tags();
  Tags tags = before;
  tags.part = StepPart::Recompute;
  for (std::int64_t i = unit.first; i < unit.first + unit.layers; ++i) {
    tags.layer = static_cast<std::int32_t>(chunk.first_layer + i);
    build_.tag(tags);
    if (i > unit.first)
      offload_.weights_begin(number, unit_of(chunk, i), used_again_after(chunk, unit, i));
    const UnitPlace place{.chunk = number, .unit = unit_of(chunk, i)};
    const bool behind = i + 1 < unit.first + unit.layers;  // a layer whose backward comes first
    if (behind) replicas_->before_again(place);
    const OpIndex first = build_.next();
    layer_.forward();
    const LayerMemory& memory = memory_of(tags);
    build_.allocate(first, Category::Activations, memory.everything() - kept_by(unit, i, memory));
    if (!behind) continue;
    offload_.weights_used();
    replicas_->after_again(place);
  }
  build_.tag(before);
}

// What its kernels read from the host, and the forward once more if it has to be.
void StageLowering::begin_layer_backward(const Chunk& chunk, const RecomputeUnit& again,
                                         std::int64_t layer, const UnitPlace& place) {
  const bool begins = layer == again.first + again.layers - 1;
  const bool repeats = again.again && begins;
  const std::int64_t read = repeats ? again.first : layer;
  offload_.weights_begin(
      place.chunk, unit_of(chunk, read),
      repeats ? used_again_after(chunk, again, read) : used_after(chunk, again, layer));
  if (again.again && !begins) return;
  offload_.backward_begins({.chunk = place.chunk,
                            .layer = read,
                            .unit = place.unit,
                            .microbatch = build_.tags().microbatch});
  if (repeats) compute_again(chunk, again, place.chunk);
}

void StageLowering::layer_backward(const Chunk& chunk, const RecomputeUnit& again,
                                   std::int64_t layer, const UnitBackward& step) {
  const bool trained = trains_layer(plan_, chunk.first_layer + layer);
  if (!reaches(plan_, chunk.first_layer + layer)) return;
  if (!trained && step.part == BackwardPart::Weight) return;
  replicas_->before_backward(step);
  write_layer_backward(chunk, again, layer, step);
  end_unit(step);
}

// A split backward trades, at the end of its input part, what the layer kept for what its weight
// gradients read.
void StageLowering::write_layer_backward(const Chunk& chunk, const RecomputeUnit& again,
                                         std::int64_t layer, const UnitBackward& step) {
  const bool trained = trains_layer(plan_, chunk.first_layer + layer);
  const BackwardPart part = trained ? step.part : BackwardPart::Input;
  const LayerMemory& memory = memory_of(build_.tags());
  if (part != BackwardPart::Weight) begin_layer_backward(chunk, again, layer, step.place);
  const OpIndex first = build_.next();
  const std::vector<ReadyGradient> gradients = layer_.backward(part);
  if (trained) ready_.insert(ready_.end(), gradients.begin(), gradients.end());
  const OpIndex end = build_.last_compute();
  if (part == BackwardPart::Weight) {
    build_.allocate(first, Category::Workspace, memory.weight_workspace);
    build_.release(end, Category::Activations, memory.for_weights);
    build_.release(end, Category::Workspace, memory.weight_workspace);
    return;
  }
  const std::int64_t rebuilt =
      again.again ? 0 : memory.everything() - kept_by(again, layer, memory);
  const std::int64_t stays = trained && part == BackwardPart::Input ? memory.for_weights : 0;
  build_.allocate(first, Category::Activations, rebuilt);
  build_.allocate(first, Category::Workspace, memory.workspace);
  build_.release(end, Category::Activations, memory.everything() - stays);
  build_.release(end, Category::Workspace, memory.workspace);
  offload_.weights_used();
}

}  // namespace trainyard
