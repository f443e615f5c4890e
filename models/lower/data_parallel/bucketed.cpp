#include "models/lower/data_parallel/bucketed.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "models/lower/data_parallel/buckets.hpp"
#include "models/lower/data_parallel/shards.hpp"
#include "models/pipeline_shape.hpp"

namespace trainyard {

BucketedReplicas::BucketedReplicas(const DataParallelParts& parts)
    : options_(parts.options),
      shape_(parts.shape),
      build_(parts.build),
      weights_(parts.chunks),
      parameters_(parts.parameters),
      gradients_(parts.options.gradients, parts.shape, parts.build),
      chunks_(parts.chunks.size()),
      reductions_(2, kNone) {
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    chunks_[i].dense.buckets = buckets_of(weights_[i], false);
    chunks_[i].experts.buckets = buckets_of(weights_[i], true);
  }
}

std::vector<Bucket> BucketedReplicas::buckets_of(const ChunkWeights& weights, bool experts) const {
  const Parallelism& p = options_.parallelism;
  const std::vector<GradientEntry>& entries = experts ? weights.experts : weights.entries;
  if (entries.empty()) return {};
  const std::int64_t replicas = experts ? expert_copies(p) : data_ranks(p);
  if (replicas == 1) return {};
  const bool twice = weight_copies(p) == 2;
  std::vector<Bucket> buckets;
  if (p.gradient_buckets == BucketRule::Pytorch) {
    buckets = pytorch_buckets(entries, pytorch_limits(p, shape_.gradient));
  } else {
    std::vector<std::int64_t> sizes;
    for (const GradientEntry& entry : entries) sizes.push_back(entry.parameters());
    // Both holders of a stage must cut it alike, so the stage decides, not the rank.
    const std::int64_t limit =
        twice ? bucket_limit(p, weights.stage, 0) : bucket_limit(p, weights.rank, weights.number);
    buckets = make_buckets(sizes, limit, replicas);
  }
  const std::int64_t stages = p.pipeline * p.interleave;
  const bool mirror = twice && 2 * weights.stage >= stages;
  for (Bucket& bucket : buckets) {
    bucket.slot = experts ? (mirror ? Slot::ExpertDataMirror : Slot::ExpertData)
                          : (mirror ? Slot::DataMirror : Slot::Data);
  }
  return buckets;
}

ShardSlots BucketedReplicas::slots_of(const Bucket& bucket) const {
  const bool experts = bucket.slot == Slot::ExpertData || bucket.slot == Slot::ExpertDataMirror;
  return experts ? expert_shard_slots(options_.parallelism, bucket.slot)
                 : shard_slots(options_.parallelism, bucket.slot);
}

// Where two directions share the ranks, both holders of a stage call for it at the same place of
// their order: by stage.
std::vector<std::size_t> BucketedReplicas::chunk_order() const {
  std::vector<std::size_t> order(chunks_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (weight_copies(options_.parallelism) == 1) return order;
  std::sort(order.begin(), order.end(),
            [this](std::size_t a, std::size_t b) { return weights_[a].stage < weights_[b].stage; });
  return order;
}

// No gradient outlives its bucket.
bool BucketedReplicas::gradients_sharded() const {
  const Parallelism& p = options_.parallelism;
  return partitions_every_microbatch(p) || (p.zero_stage == 2 && options_.microbatches == 1);
}

void BucketedReplicas::begin_step() {
  hold_state(options_.gradients, parameters_, {.gradients_sharded = gradients_sharded()}, build_);
  if (options_.parallelism.overlap_param_gather) gather_weights();
  const auto share = [this](std::int64_t count, std::int64_t shards) {
    return gradients_sharded() ? (count + shards - 1) / shards : count;
  };
  gradients_.zero_gradients(share(parameters_.total, options_.gradients.shards) +
                            share(parameters_.experts, options_.gradients.expert_shards));
}

// In the order of the forward pass: the last bucket holds the first layers.
void BucketedReplicas::gather_weights() {
  if (options_.parallelism.zero_stage == 0) return;
  for (const std::size_t number : chunk_order()) {
    gather_share(chunks_[number].dense);
    gather_share(chunks_[number].experts);
  }
}

void BucketedReplicas::gather_share(Share& share) {
  if (options_.parallelism.weight_exchange == WeightExchange::Broadcast) {
    share.gathers.assign(share.buckets.size(), broadcast(share));
    return;
  }
  share.gathers.assign(share.buckets.size(), kNone);
  for (std::size_t bucket = share.buckets.size(); bucket-- > 0;) {
    share.gathers[bucket] = gather(share.buckets[bucket]);
  }
}

OpIndex BucketedReplicas::gather(const Bucket& bucket) {
  const ShardSlots slots = slots_of(bucket);
  if (slots.shards == 1 || bucket.parameters == 0) return kNone;
  const DataType wire = options_.weight_wire;
  const Call call = options_.collectives.call(
      GroupKind::Data, CollectiveOp::AllGather,
      bucket.parameters * static_cast<std::int64_t>(element_bytes(wire)), wire);
  const Tags before = build_.tags();
  build_.tag({.part = StepPart::ParamSync});
  const OpIndex op = build_.collective("parameter_all_gather", Stream::Data, slots.shard, call,
                                       {build_.last_compute()});
  build_.tag(before);
  return op;
}

// Every owner's share of all buckets in one piece, one owner after another. All owners stand alike,
// so that the calls are equal.
OpIndex BucketedReplicas::broadcast(const Share& share) {
  std::int64_t parameters = 0;
  for (const Bucket& bucket : share.buckets) parameters += bucket.parameters;
  if (parameters == 0) return kNone;
  const ShardSlots slots = slots_of(share.buckets.front());
  if (slots.shards == 1) return kNone;
  const DataType wire = options_.weight_wire;
  const std::int64_t owned = (parameters + slots.shards - 1) / slots.shards;
  const Call call =
      options_.collectives.call(GroupKind::Data, CollectiveOp::Broadcast,
                                owned * static_cast<std::int64_t>(element_bytes(wire)), wire);
  const Tags before = build_.tags();
  build_.tag({.part = StepPart::ParamSync});
  OpIndex last = build_.last_compute();
  for (std::int64_t owner = 0; owner < slots.shards; ++owner) {
    last = build_.collective("parameter_broadcast", Stream::Data, slots.shard, call, {last});
  }
  build_.tag(before);
  return last;
}

// The unit's parameters start at its first entry; gathered in reverse, that one arrives last.
void BucketedReplicas::before_forward(const UnitPlace& place) {
  const Chunk& chunk = chunks_[place.chunk];
  if (chunk.entered) return;
  const WeightUnit& unit = weights_[place.chunk].units[place.unit];
  if (unit.end > unit.begin) wait_for(chunk.dense, unit.begin);
  if (unit.experts_end > unit.experts_begin) wait_for(chunk.experts, unit.experts_begin);
}

void BucketedReplicas::wait_for(const Share& share, std::size_t entry) {
  for (std::size_t bucket = 0; bucket < share.gathers.size(); ++bucket) {
    if (entry >= share.buckets[bucket].begin && entry < share.buckets[bucket].end) {
      build_.wait_for(share.gathers[bucket]);
    }
  }
}

void BucketedReplicas::after_forward(const UnitPlace& place) {
  if (place.unit + 1 == weights_[place.chunk].units.size()) chunks_[place.chunk].entered = true;
}

void BucketedReplicas::before_backward(const UnitBackward& backward) {
  if (backward.part == BackwardPart::Input || !gradients_sharded()) return;
  const WeightUnit& unit = weights_[backward.place.chunk].units[backward.place.unit];
  Chunk& chunk = chunks_[backward.place.chunk];
  enter(chunk);
  allocate_gradients(chunk.dense, unit.begin, unit.end);
  allocate_gradients(chunk.experts, unit.experts_begin, unit.experts_end);
}

// The gradients of entries [begin, end) come next.
void BucketedReplicas::allocate_gradients(Share& share, std::size_t begin, std::size_t end) {
  std::size_t fresh = 0;
  for (; share.held < share.buckets.size(); ++share.held) {
    const Bucket& bucket = share.buckets[share.held];
    const bool filled_here = bucket.begin <= begin || bucket.end <= end;
    if (bucket.begin >= end || !filled_here) break;
    if (bucket.parameters == 0) continue;
    build_.allocate(build_.next(), Category::Gradients, bucket.parameters * shape_.gradient);
    ++fresh;
  }
  if (fresh > 0) wait_for_room(share.experts, fresh);
}

// Buckets are reduced in the order in which room was made for them.
void BucketedReplicas::wait_for_room(bool experts, std::size_t buckets) {
  std::deque<Held>& held = experts ? held_experts_ : held_;
  held.push_back({.unreduced = buckets});
  while (static_cast<std::int64_t>(held.size()) > options_.buckets_in_flight &&
         held.front().unreduced == 0) {
    build_.wait_for(held.front().reduction);
    held.pop_front();
  }
}

void BucketedReplicas::note_reduction(bool experts, OpIndex reduction) {
  for (Held& held : experts ? held_experts_ : held_) {
    if (held.unreduced == 0) continue;
    --held.unreduced;
    held.reduction = reduction;
    return;
  }
}

// Starts the reduction of every bucket whose last gradient is final.
void BucketedReplicas::after_backward(const UnitBackward& backward,
                                      const std::vector<ReadyGradient>& ready) {
  const bool every = partitions_every_microbatch(options_.parallelism);
  if (backward.part == BackwardPart::Input || !(backward.last || every)) return;
  Chunk& chunk = chunks_[backward.place.chunk];
  enter(chunk);
  if (options_.parallelism.overlap_grad_reduce || every) {
    const bool experts = reduce_ready(chunk.experts, ready);
    const bool dense = reduce_ready(chunk.dense, ready);
    if (!options_.parallelism.overlap_grad_reduce && (experts || dense))
      for (const OpIndex reduction : reductions_) build_.wait_for(reduction);
  }
}

// Another microbatch fills the buckets from the first one on. The embedding's backward does not end
// the one before: a frozen embedding has none.
void BucketedReplicas::enter(Chunk& chunk) {
  if (chunk.microbatch == build_.tags().microbatch) return;
  chunk.microbatch = build_.tags().microbatch;
  for (Share* share : {&chunk.dense, &chunk.experts}) {
    share->next = share->held = share->seen = 0;
    share->final.clear();
  }
}

bool BucketedReplicas::reduce_ready(Share& share, const std::vector<ReadyGradient>& ready) {
  const std::size_t begin = share.next;
  for (const ReadyGradient& gradient : std::span(ready).subspan(share.seen))
    if (gradient.expert == share.experts) share.final.push_back(gradient.op);
  share.seen = ready.size();
  for (; share.next < share.buckets.size() && share.buckets[share.next].end <= share.final.size();
       ++share.next) {
    const Bucket& bucket = share.buckets[share.next];
    OpIndex latest = 0;
    for (std::size_t i = bucket.begin; i < bucket.end; ++i)
      latest = std::max(latest, share.final[i]);
    reduce(bucket, latest);
  }
  return share.next > begin;
}

void BucketedReplicas::reduce_rest(const Chunk& chunk) {
  for (const Share* share : {&chunk.dense, &chunk.experts})
    for (const Bucket& bucket : share->buckets) reduce(bucket, build_.last_compute());
}

void BucketedReplicas::reduce(const Bucket& bucket, OpIndex after) {
  if (bucket.parameters == 0) return;  // of frozen weights
  const ShardSlots slots = slots_of(bucket);
  const CollectiveOp op = slots.shards > 1 ? CollectiveOp::ReduceScatter : CollectiveOp::AllReduce;
  const std::int64_t bytes = bucket.parameters * shape_.gradient;
  const DataType wire = options_.gradient_wire;
  Tags tags = build_.tags();
  const Tags before = tags;
  tags.part = StepPart::GradSync;
  build_.tag(tags);
  after = gradients_.before_reduction(bucket.parameters, slots.shards * slots.replicas, after);
  reductions_[0] =
      build_.collective("gradient_" + std::string(to_string(op)), Stream::Data, slots.shard,
                        options_.collectives.call(GroupKind::Data, op, bytes, wire), {after});
  if (gradients_sharded()) {
    build_.release(reductions_[0], Category::Gradients, bytes);
    note_reduction(bucket.slot == Slot::ExpertData || bucket.slot == Slot::ExpertDataMirror,
                   reductions_[0]);
  }
  if (slots.shards > 1 && slots.replicas > 1) {
    const Call rest = options_.collectives.call(GroupKind::Data, CollectiveOp::AllReduce,
                                                bytes / slots.shards, wire);
    reductions_[1] = build_.collective("gradient_all_reduce", Stream::Replica, slots.replica, rest,
                                       {reductions_[0]});
  }
  build_.tag(before);
}

// What has one replica has no bucket.
void BucketedReplicas::pass_over_unreduced() {
  const Tags before = build_.tags();
  build_.tag({.part = StepPart::GradSync, .work = WorkClass::Optimizer});
  const Parallelism& p = options_.parallelism;
  const std::int64_t parameters = (data_ranks(p) == 1 ? parameters_.total : 0) +
                                  (expert_copies(p) == 1 ? parameters_.experts : 0);
  if (parameters > 0) gradients_.before_reduction(parameters, 1, build_.last_compute());
  build_.tag(before);
}

void BucketedReplicas::end_step() {
  const bool every = partitions_every_microbatch(options_.parallelism);
  if (!options_.parallelism.overlap_grad_reduce && !every) {
    for (const std::size_t number : chunk_order()) reduce_rest(chunks_[number]);
  }
  pass_over_unreduced();
  gradients_.finish(parameters_, reductions_);
  if (!options_.parallelism.overlap_param_gather) gather_weights();
}

}  // namespace trainyard
