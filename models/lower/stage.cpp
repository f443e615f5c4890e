#include "models/lower/stage.hpp"

#include <fmt/format.h>

#include <algorithm>

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
      build_(interner, fmt::format("stage {}", stage), static_cast<std::uint32_t>(stage)),
      layer_(plan, shape_, build_),
      ends_(plan, shape_, build_),
      gradients_(plan, shape_, build_),
      memory_(layer_memory(plan)),
      stage_(stage) {
  std::int64_t first_layer = 0;
  for (std::size_t virtual_stage = 0; virtual_stage < split.size(); ++virtual_stage) {
    if (static_cast<std::int64_t>(virtual_stage) % plan.parallelism.pipeline == stage) {
      chunks_.push_back(make_chunk(static_cast<std::int64_t>(chunks_.size())));
      Chunk& chunk = chunks_.back();
      chunk.first_layer = first_layer;
      chunk.layers = split[virtual_stage];
      fill_sizes(chunk);
    }
    first_layer += split[virtual_stage];
  }
}

StageLowering::Chunk StageLowering::make_chunk(std::int64_t number) const {
  Chunk chunk;
  chunk.number = number;
  chunk.has_embedding = stage_ == 0 && number == 0;
  chunk.has_head =
      stage_ == plan_.parallelism.pipeline - 1 && number == plan_.parallelism.interleave - 1;
  chunk.backwards_left = plan_.microbatches();
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
  if (plan_.parallelism.data == 1) return;
  chunk.buckets = make_buckets(chunk.sizes, bucket_limit(plan_.parallelism, stage_, chunk.number),
                               plan_.parallelism.data);
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
    const bool shares = plan_.architecture.tied_embeddings && plan_.parallelism.pipeline > 1;
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
    TY_CHECK(step.kind == StepKind::Forward || step.kind == StepKind::Backward);
    begin_step();
    step.kind == StepKind::Forward ? forward(step) : backward(step);
  }
  if (!plan_.parallelism.overlap_grad_reduce) {
    for (const Chunk& chunk : chunks_) {
      for (const Bucket& bucket : chunk.buckets) gradients_.reduce(bucket, build_.last_compute());
    }
  }
  gradients_.finish(parameters);
  if (!plan_.parallelism.overlap_param_gather) gather_weights();
  return build_.take();
}

// In the order of the forward pass: the last bucket holds the first layers.
void StageLowering::gather_weights() {
  if (plan_.parallelism.zero_stage == 0) return;
  for (Chunk& chunk : chunks_) {
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
// microbatches before it is used.
void StageLowering::begin_step() {
  const bool ring = plan_.parallelism.interleave > 1;
  posted_after_ = ring ? done_before_ : build_.last_compute();
  done_before_ = build_.last_compute();
}

void StageLowering::receive(std::string_view name, Stream stream, Slot slot) {
  if (plan_.parallelism.pipeline == 1)
    return;  // the chunk before is on this rank: its output is here
  const Call call{.op = CollectiveOp::SendRecv,
                  .bytes = shape_.boundary,
                  .dtype = shape_.dtype,
                  .algorithm = "direct"};
  const Parallelism& p = plan_.parallelism;
  const std::int64_t end_of_ring = stream == Stream::RecvForward ? 0 : p.pipeline - 1;
  const bool comes_round = p.interleave > 1 && stage_ == end_of_ring;
  const OpIndex after = p.overlap_p2p || comes_round ? kNone : posted_after_;
  const OpIndex message = build_.recv(name, stream, slot, call, {after});
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

void StageLowering::send(std::string_view name, Stream stream, Slot slot) {
  if (plan_.parallelism.pipeline == 1) return;
  const Call call{.op = CollectiveOp::SendRecv,
                  .bytes = shape_.boundary,
                  .dtype = shape_.dtype,
                  .algorithm = "direct"};
  const OpIndex message = build_.send(name, stream, slot, call, {build_.last_compute()});
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
    receive("recv_forward", Stream::RecvForward, Slot::RecvForward);
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
    send("send_forward", Stream::SendForward, Slot::SendForward);
  }
  chunk.entered = true;
}

void StageLowering::backward(const ScheduleStep& step) {
  Chunk& chunk = chunks_[static_cast<std::size_t>(step.chunk)];
  const bool last = --chunk.backwards_left == 0;
  std::vector<ReadyGradient> finished;
  std::vector<ReadyGradient>* ready = last ? &finished : nullptr;
  std::size_t next_bucket = 0;
  build_.tag({.part = StepPart::Backward, .microbatch = step.microbatch});
  if (chunk.has_head) {
    ends_.head_backward(ready);
  } else {
    receive("recv_backward", Stream::RecvBackward, Slot::RecvBackward);
  }
  for (std::int64_t i = chunk.layers; i-- > 0;) {
    layer_backward(step.microbatch, chunk.first_layer + i, ready);
    reduce_ready(chunk, finished, next_bucket);
  }
  build_.tag({.part = StepPart::Backward, .microbatch = step.microbatch});
  if (chunk.has_embedding) {
    ends_.embedding_backward(ready);
  } else {
    send("send_backward", Stream::SendBackward, Slot::SendBackward);
  }
  reduce_ready(chunk, finished, next_bucket);
  TY_CHECK(!last || finished.size() == chunk.sizes.size(), finished.size(), chunk.sizes.size());
}

void StageLowering::layer_backward(std::int32_t microbatch, std::int64_t layer,
                                   std::vector<ReadyGradient>* ready) {
  Tags tags{.part = StepPart::Recompute,
            .microbatch = microbatch,
            .layer = static_cast<std::int32_t>(layer)};
  const OpIndex first = build_.next();
  if (plan_.training.recompute == Recompute::Full) {
    build_.tag(tags);
    layer_.forward();
  }
  tags.part = StepPart::Backward;
  build_.tag(tags);
  layer_.backward(ready);
  const OpIndex end = build_.last_compute();
  build_.allocate(first, Category::Activations, memory_.working);
  build_.release(end, Category::Activations, memory_.kept + memory_.working);
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
