#include "models/lower/stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// A layer's parameters in the order their gradients become final.
std::vector<std::int64_t> layer_sizes(const TrainingPlan& plan) {
  const LayerParameters p = layer_parameters(plan.architecture, plan.parallelism.tensor);
  return {p.down + p.down_bias, p.up, p.norm, p.projection + p.projection_bias, p.qkv, p.norm};
}
constexpr std::int64_t kLayerEntries = 6;

}  // namespace

StageLowering::StageLowering(const TrainingPlan& plan, const std::vector<std::int64_t>& split,
                             std::int64_t stage, Interner& interner)
    : plan_(plan),
      shape_(plan),
      pipeline_(pipeline_shape(plan)),
      build_(interner, fmt::format("stage {}", stage), static_cast<std::uint32_t>(stage)),
      layer_(plan, shape_, build_),
      ends_(plan, shape_, build_),
      gradients_(plan, shape_, build_),
      memory_(layer_memory(plan)),
      stage_(stage) {
  for (std::int64_t number = 0; number < pipeline_.chunks; ++number) {
    chunks_.push_back(make_chunk(number, split));
    fill_sizes(chunks_.back());
  }
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
  const MicrobatchRange microbatches = microbatches_of(pipeline_, number);
  chunk.backwards_left = microbatches.end - microbatches.begin;
  return chunk;
}

void StageLowering::fill_sizes(Chunk& chunk) const {
  const EndParameters ends = end_parameters(plan_);
  if (chunk.has_head) {
    if (ends.head > 0) chunk.sizes.push_back(ends.head);
    chunk.sizes.push_back(ends.final_norm);
  }
  chunk.head_entries = chunk.sizes.size();
  const std::vector<std::int64_t> layer = layer_sizes(plan_);
  for (std::int64_t i = 0; i < chunk.layers; ++i)
    chunk.sizes.insert(chunk.sizes.end(), layer.begin(), layer.end());
  if (chunk.has_embedding) chunk.sizes.push_back(ends.embedding + ends.positions);
  const std::int64_t replicas = plan_.parallelism.data * weight_copies(plan_.parallelism);
  if (replicas == 1) return;
  // Both holders of a stage must cut it alike, so the stage decides, not the rank.
  const bool twice = pipeline_.placement == Placement::Bidirectional;
  const std::int64_t limit = twice ? bucket_limit(plan_.parallelism, chunk.stage, 0)
                                   : bucket_limit(plan_.parallelism, stage_, chunk.place.chunk);
  chunk.buckets = make_buckets(chunk.sizes, limit, replicas);
  if (!twice || 2 * chunk.stage < pipeline_.stages) return;
  for (Bucket& bucket : chunk.buckets) bucket.slot = Slot::DataMirror;
}

StageParameters StageLowering::stage_parameters() const {
  const LayerParameters layer = layer_parameters(plan_.architecture, shape_.tensor);
  const EndParameters ends = end_parameters(plan_);
  StageParameters parameters;
  for (const Chunk& chunk : chunks_) {
    for (const std::int64_t size : chunk.sizes) parameters.total += size;
    parameters.replicated +=
        chunk.layers * (2 * layer.norm + layer.projection_bias + layer.down_bias);
    if (chunk.has_embedding) parameters.replicated += ends.positions;
    if (chunk.has_head) parameters.replicated += ends.final_norm;
    const bool shares = plan_.architecture.tied_embeddings && !ends_on_one_rank(plan_.parallelism);
    if (shares && (chunk.has_embedding || chunk.has_head))
      parameters.shared_embedding = ends.embedding;
  }
  return parameters;
}

void StageLowering::hold_memory(const StageParameters& parameters) {
  hold_state(plan_, parameters, build_);
  const Parallelism& p = plan_.parallelism;
  const std::int64_t communicators =
      (p.tensor > 1 ? 1 : 0) + (p.pipeline > 1 ? 1 : 0) + (p.data > 1 ? 1 : 0);
  build_.hold(Category::Communication, communicators * plan_.framework.communicator_bytes);
  build_.hold(Category::Framework, plan_.framework.context_bytes + plan_.framework.workspace_bytes);
}

Program StageLowering::lower(const std::vector<ScheduleStep>& steps) {
  const StageParameters parameters = stage_parameters();
  hold_memory(parameters);
  if (plan_.parallelism.overlap_param_gather) gather_weights();
  gradients_.zero_gradients(parameters);
  for (const ScheduleStep& step : steps) {
    const bool exchanges = step.kind != StepKind::BackwardWeight;
    if (exchanges) begin_step();
    step.kind == StepKind::Forward ? forward(step) : backward(step);
    if (exchanges) exchanged_ = build_.last_compute();
  }
  if (!plan_.parallelism.overlap_grad_reduce) {
    for (const std::size_t number : chunk_order()) {
      for (const Bucket& bucket : chunks_[number].buckets) {
        gradients_.reduce(bucket, build_.last_compute());
      }
    }
  }
  gradients_.finish(parameters);
  if (!plan_.parallelism.overlap_param_gather) gather_weights();
  return build_.take();
}

// Where two directions share the ranks, both holders of a stage call for it at the same place of
// their order: by stage.
std::vector<std::size_t> StageLowering::chunk_order() const {
  std::vector<std::size_t> order(chunks_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (pipeline_.placement != Placement::Bidirectional) return order;
  std::sort(order.begin(), order.end(),
            [this](std::size_t a, std::size_t b) { return chunks_[a].stage < chunks_[b].stage; });
  return order;
}

// In the order of the forward pass: the last bucket holds the first layers.
void StageLowering::gather_weights() {
  if (plan_.parallelism.zero_stage == 0) return;
  for (const std::size_t number : chunk_order()) {
    Chunk& chunk = chunks_[number];
    chunk.gathers.assign(chunk.buckets.size(), kNone);
    for (std::size_t bucket = chunk.buckets.size(); bucket-- > 0;) {
      chunk.gathers[bucket] = gradients_.gather(chunk.buckets[bucket], build_.last_compute());
    }
  }
}

// A module's parameters start at `entry` in backward order; gathered in reverse, that one arrives
// last.
void StageLowering::wait_for_weights(const Chunk& chunk, std::size_t entry) {
  if (chunk.entered || chunk.gathers.empty()) return;
  for (std::size_t bucket = 0; bucket < chunk.buckets.size(); ++bucket) {
    if (entry >= chunk.buckets[bucket].begin && entry < chunk.buckets[bucket].end) {
      build_.wait_for(chunk.gathers[bucket]);
    }
  }
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

void StageLowering::receive(const Chunk& chunk, bool forward) {
  const auto source =
      forward ? place_before(pipeline_, chunk.place) : place_after(pipeline_, chunk.place);
  if (!source || source->rank == stage_) return;  // its output is here
  const Call call{.op = CollectiveOp::SendRecv,
                  .bytes = shape_.boundary,
                  .dtype = shape_.dtype,
                  .algorithm = "direct"};
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
  const Call call{.op = CollectiveOp::SendRecv,
                  .bytes = shape_.boundary,
                  .dtype = shape_.dtype,
                  .algorithm = "direct"};
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
  Chunk& chunk = chunks_[static_cast<std::size_t>(step.chunk)];
  Tags tags{.part = StepPart::Forward, .microbatch = step.microbatch};
  build_.tag(tags);
  if (chunk.has_embedding) {
    wait_for_weights(chunk, chunk.sizes.size() - 1);
    ends_.embedding_forward();
  } else {
    receive(chunk, true);
  }
  for (std::int64_t i = 0; i < chunk.layers; ++i) {
    tags.layer = static_cast<std::int32_t>(chunk.first_layer + i);
    build_.tag(tags);
    wait_for_weights(chunk, chunk.head_entries +
                                static_cast<std::size_t>((chunk.layers - 1 - i) * kLayerEntries));
    const OpIndex first = build_.next();
    layer_.forward();
    build_.allocate(first, Category::Activations, memory_.kept);
  }
  tags.layer = -1;
  build_.tag(tags);
  if (chunk.has_head) {
    wait_for_weights(chunk, 0);
    ends_.head_forward();
  } else {
    send(chunk, true);
  }
  chunk.entered = true;
}

void StageLowering::backward(const ScheduleStep& step) {
  Chunk& chunk = chunks_[static_cast<std::size_t>(step.chunk)];
  const BackwardPart part = step.kind == StepKind::Backward        ? BackwardPart::Full
                            : step.kind == StepKind::BackwardInput ? BackwardPart::Input
                                                                   : BackwardPart::Weight;
  // The input part leaves no gradient of a weight that is final.
  const bool last = part != BackwardPart::Input && --chunk.backwards_left == 0;
  std::vector<ReadyGradient> finished;
  std::vector<ReadyGradient>* ready = last ? &finished : nullptr;
  std::size_t next_bucket = 0;
  Tags tags{.part = StepPart::Backward, .microbatch = step.microbatch};
  build_.tag(tags);
  enter_backward(chunk, part, ready);
  for (std::int64_t i = chunk.layers; i-- > 0;) {
    tags.layer = static_cast<std::int32_t>(chunk.first_layer + i);
    layer_backward(tags, part, ready);
    reduce_ready(chunk, finished, next_bucket);
  }
  tags.layer = -1;
  build_.tag(tags);
  leave_backward(chunk, part, ready);
  reduce_ready(chunk, finished, next_bucket);
  TY_CHECK(!last || finished.size() == chunk.sizes.size(), finished.size(), chunk.sizes.size());
}

// Head and loss, or the gradient from the stage after.
void StageLowering::enter_backward(const Chunk& chunk, BackwardPart part,
                                   std::vector<ReadyGradient>* ready) {
  if (chunk.has_head) {
    ends_.head_backward(part, ready);
  } else if (part != BackwardPart::Weight) {
    receive(chunk, false);
  }
}

// The embedding has a weight gradient alone; every other stage hands its input gradient on.
void StageLowering::leave_backward(const Chunk& chunk, BackwardPart part,
                                   std::vector<ReadyGradient>* ready) {
  if (chunk.has_embedding) {
    if (part != BackwardPart::Input) ends_.embedding_backward(ready);
  } else if (part != BackwardPart::Weight) {
    send(chunk, false);
  }
}

// A split backward trades, at the end of its input part, what the layer kept for what its weight
// gradients read.
void StageLowering::layer_backward(const Tags& tags, BackwardPart part,
                                   std::vector<ReadyGradient>* ready) {
  if (part == BackwardPart::Weight) {
    build_.tag(tags);
    layer_.backward(part, ready);
    build_.release(build_.last_compute(), Category::Activations, memory_.for_weights);
    return;
  }
  const OpIndex first = build_.next();
  if (plan_.training.recompute == Recompute::Full) {
    Tags again = tags;
    again.part = StepPart::Recompute;
    build_.tag(again);
    layer_.forward();
  }
  build_.tag(tags);
  layer_.backward(part, ready);
  const OpIndex end = build_.last_compute();
  const std::int64_t stays = part == BackwardPart::Input ? memory_.for_weights : 0;
  build_.allocate(first, Category::Activations, memory_.working);
  build_.release(end, Category::Activations, memory_.kept + memory_.working - stays);
}

// Starts the reduction of every bucket whose last gradient is final.
void StageLowering::reduce_ready(const Chunk& chunk, const std::vector<ReadyGradient>& ready,
                                 std::size_t& next_bucket) {
  if (!plan_.parallelism.overlap_grad_reduce) return;
  for (; next_bucket < chunk.buckets.size() && chunk.buckets[next_bucket].end <= ready.size();
       ++next_bucket) {
    const Bucket& bucket = chunk.buckets[next_bucket];
    OpIndex latest = 0;
    for (std::size_t i = bucket.begin; i < bucket.end; ++i) latest = std::max(latest, ready[i].op);
    gradients_.reduce(bucket, latest);
  }
}

}  // namespace trainyard
