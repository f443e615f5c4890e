// Data parallelism by buckets of gradients:
// - plain replicas: all_reduce;
// - ZeRO 1: reduce_scatter, and an all_gather (or broadcasts) of the new weights before the first
//   forward, or without overlap_param_gather at the end of the step;
// - ZeRO 2: the same, and the gradients of a bucket exist only until they are reduced.
// ZeRO 2 limits the number of buckets that exist at once (Parallelism::gradient_buckets_in_flight).
// If reductions are slower than the backward, the backward waits for them. It waits before a unit
// (embedding, layer or head). All buckets that one unit fills therefore count as one, and a bucket
// of which a unit computes only the first gradients counts from the next unit on.
//
// Bytes sent by a rank in a step, with f = (d-1)/d, P parameters, w_g bytes per gradient and w_p
// per weight: 2fP w_g for replicas, fP(w_g + w_p) for ZeRO 1, and fP(a w_g + w_p) with gradients
// reduced after each of a microbatches (Rajbhandari et al. 2019, arXiv 1910.02054, section 7, which
// sets f = 1). With r sharded copies of s shards, each copy reduces internally, and then each
// shard, 1/s of the gradients, is reduced over the r copies. Llama-3 8B at d = 64: 31 619 153 664 B
// of bf16 gradients (tests/models/lower/sharded_volume_test.cpp).
#include "models/lower/data_parallel/bucketed.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "models/lower/data_parallel/data_parallel.hpp"
#include "models/lower/data_parallel/shards.hpp"
#include "models/pipeline_shape.hpp"

namespace trainyard {

// ---- rules of buckets

// Each bucket is padded to a multiple of lcm(d, 128), so that its shards have equal sizes. The
// limit is compared with the sum before padding: sizes of 60, 50 and 30 with a limit of 100 and 8
// replicas make buckets of 110 and 30, padded to 128 each.
std::vector<Bucket> make_buckets(std::span<const std::int64_t> sizes, std::int64_t limit,
                                 std::int64_t replicas) {
  std::vector<Bucket> buckets;
  Bucket open;
  const std::int64_t multiple = std::lcm(replicas, std::int64_t{128});
  const auto close = [&](std::size_t end) {
    open.end = end;
    open.parameters = (open.parameters + multiple - 1) / multiple * multiple;
    buckets.push_back(open);
    open = {.begin = end, .end = end, .parameters = 0};
  };
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    open.parameters += sizes[i];
    if (limit > 0 && open.parameters >= limit) close(i + 1);
  }
  if (open.begin < sizes.size()) close(sizes.size());
  return buckets;
}

std::int64_t bucket_limit(const Parallelism& p, std::int64_t stage, std::int64_t chunk) {
  if (!partitions_every_microbatch(p) && (!p.overlap_grad_reduce || stage > 0 || chunk > 0))
    return 0;
  return p.bucket_parameters > 0 ? p.bucket_parameters
                                 : std::max<std::int64_t>(40'000'000, 1'000'000 * p.replicas());
}

namespace {
constexpr std::int64_t kMebibyte = 1 << 20;
}  // namespace

BucketLimits pytorch_limits(const Parallelism& parallelism, std::int64_t gradient_bytes) {
  if (!parallelism.overlap_grad_reduce) return {};
  const std::int64_t chosen = parallelism.bucket_parameters;
  if (chosen > 0) return {.first = chosen, .others = chosen};
  return {.first = kMebibyte / gradient_bytes, .others = 25 * kMebibyte / gradient_bytes};
}

// Tensors of 0.5, 0.75, 10, 10, 10, 40 and 3 MiB make buckets of 1.25, 30, 40 and 3 MiB.
std::vector<Bucket> pytorch_buckets(std::span<const GradientEntry> entries,
                                    const BucketLimits& limits) {
  std::vector<Bucket> buckets;
  Bucket open;
  for (std::size_t entry = 0; entry < entries.size(); ++entry) {
    for (const Tensor& tensor : entries[entry].tensors) {
      if (open.parameters == 0) open.begin = entry;
      open.end = entry + 1;
      open.parameters += tensor.elements();
      const std::int64_t limit = buckets.empty() ? limits.first : limits.others;
      if (limit == 0 || open.parameters < limit) continue;
      buckets.push_back(open);
      open = {};
    }
  }
  if (open.parameters > 0) buckets.push_back(open);
  return buckets;
}

namespace {

// Sends updated weights from their owners to all ranks that hold them (ZeRO 1 and 2).
class WeightGathers {
 public:
  WeightGathers(const ReplicaOptions& options, ProgramBuilder& build)
      : options_(options), build_(build) {}

  // Returns, for each bucket, the operation after which its weights are up to date; kNone if they
  // are already.
  std::vector<OpIndex> gather(std::span<const Bucket> buckets);

 private:
  OpIndex gather(const Bucket& bucket);
  OpIndex broadcast(std::span<const Bucket> buckets);

  const ReplicaOptions& options_;
  ProgramBuilder& build_;
};

// The buckets of one class of weights of a chunk, whose weights all have the same replicas: either
// the experts or all other weights. Tracks which buckets the current microbatch has filled.
class BucketShare {
 public:
  BucketShare(bool experts, std::vector<Bucket> buckets)
      : experts_(experts), buckets_(std::move(buckets)) {}

  [[nodiscard]] bool experts() const { return experts_; }
  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }
  void gathered_by(std::vector<OpIndex> gathers) { gathers_ = std::move(gathers); }
  // Makes the next computation wait for the weights of an entry.
  void wait_for(std::size_t entry, ProgramBuilder& build) const;
  // The next microbatch fills the buckets, beginning with the first one.
  void restart();
  // Buckets that must be allocated before the gradients of entries [begin, end), which come next.
  [[nodiscard]] std::vector<Bucket> opened_by(std::size_t begin, std::size_t end);
  // Buckets whose last gradient is among `ready`, each with the operation after which it is full.
  struct Filled {
    Bucket bucket;
    OpIndex at = kNone;
  };
  [[nodiscard]] std::vector<Filled> filled_by(const std::vector<ReadyGradient>& ready);

 private:
  bool experts_ = false;
  std::vector<Bucket> buckets_;
  std::vector<OpIndex> gathers_ = {};  // by bucket, if weights are gathered
  // State of the current microbatch.
  std::size_t next_ = 0;             // the bucket that is being filled
  std::size_t opened_ = 0;           // zero_stage 2: number of buckets that have been allocated
  std::vector<OpIndex> final_ = {};  // final gradients of these weights, by entry
  std::size_t seen_ = 0;             // number of gradients of `ready` that have been processed
};

// Limits the number of buckets that exist at once (zero_stage 2). Buckets are reduced in the order
// in which they are allocated.
class BucketLimiter {
 public:
  // Allocates `buckets` buckets before a unit. The next computation waits until at most `limit`
  // units, including this one, have buckets.
  void make(std::size_t buckets, std::int64_t limit, ProgramBuilder& build);
  void reduced(OpIndex reduction);
  // Add the state to that of the scheme, and read it back from its next entries.
  void save(ReplicaState& state) const;
  void restore(std::span<const OpIndex>& operations, std::span<const std::int64_t>& values);
  [[nodiscard]] std::size_t units() const { return held_.size(); }

 private:
  struct Held {
    std::size_t unreduced = 0;  // buckets of a unit whose reduction is not issued yet
    OpIndex reduction = kNone;  // latest reduction of the unit's other buckets
  };
  std::deque<Held> held_;  // oldest first
};

class BucketedReplicas final : public DataParallel {
 public:
  explicit BucketedReplicas(const DataParallelParts& parts);

  void begin_step() override;
  void before_forward(const UnitIndex& place) override;
  void after_forward(const UnitIndex& place) override;
  void before_backward(const UnitBackward& backward) override;
  void after_backward(const UnitBackward& backward,
                      const std::vector<ReadyGradient>& ready) override;
  [[nodiscard]] bool ignores_repeated_steps() const override { return !gradients_sharded(); }
  [[nodiscard]] std::optional<ReplicaState> state() const override;
  void restore(const ReplicaState& state) override;
  void end_step() override;

 private:
  struct Chunk {
    BucketShare dense;
    BucketShare experts;
    bool entered = false;          // its first forward has been written
    std::int32_t microbatch = -1;  // microbatch whose backward has been written last
  };

  [[nodiscard]] bool gradients_sharded() const;
  void gather_weights();
  void enter(Chunk& chunk);
  void hold_opened(BucketShare& share, std::size_t begin, std::size_t end);
  void reduce(const Bucket& bucket, OpIndex after);
  void reduce_rest(const Chunk& chunk);
  void passes_without_reduction();

  const ReplicaOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  const std::vector<ChunkWeights>& weights_;
  const StageParameters& parameters_;
  GradientLowering gradients_;
  std::vector<Chunk> chunks_;
  std::vector<std::size_t> order_;   // of the chunks, the same for all ranks that hold them
  std::vector<OpIndex> reductions_;  // latest on Stream::Data and on Stream::Replica
  BucketLimiter free_capacity_;
  BucketLimiter expert_room_;
};

// The buckets of a chunk's experts, or of its other weights. There are none without replicas.
// With two directions (DualPipe), stages of the second half use the mirror slots.
std::vector<Bucket> buckets_of(const Parallelism& p, std::int64_t gradient_bytes,
                               const ChunkWeights& weights, bool experts) {
  const std::vector<GradientEntry>& entries = experts ? weights.experts : weights.entries;
  if (entries.empty()) return {};
  const std::int64_t replicas = experts ? expert_copies(p) : data_ranks(p);
  if (replicas == 1) return {};
  const bool twice = weight_copies(p) == 2;
  std::vector<Bucket> buckets;
  if (p.gradient_buckets == BucketRule::Pytorch) {
    buckets = pytorch_buckets(entries, pytorch_limits(p, gradient_bytes));
  } else {
    std::vector<std::int64_t> sizes;
    for (const GradientEntry& entry : entries) sizes.push_back(entry.parameters());
    // Both holders of a stage must form the same buckets, so that the limit depends on the stage
    // and not on the rank.
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

bool of_experts(const Bucket& bucket) {
  return bucket.slot == Slot::ExpertData || bucket.slot == Slot::ExpertDataMirror;
}

ShardSlots slots_of(const Parallelism& parallelism, const Bucket& bucket) {
  return of_experts(bucket) ? expert_shard_slots(parallelism, bucket.slot)
                            : shard_slots(parallelism, bucket.slot);
}

// Order in which a rank issues the collectives of its chunks. If two directions share the ranks, a
// rank holds two stages and shares each of them with another rank. Collectives that a stage's two
// holders issue in different orders would deadlock, so that all ranks use the order of stages.
std::vector<std::size_t> chunk_order(const Parallelism& parallelism,
                                     const std::vector<ChunkWeights>& weights) {
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (weight_copies(parallelism) == 1) return order;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return weights[a].stage < weights[b].stage; });
  return order;
}

// ---- weights

// Gathers in the order of the forward. Buckets are in backward order, so that the last bucket holds
// the first layers.
std::vector<OpIndex> WeightGathers::gather(std::span<const Bucket> buckets) {
  if (options_.parallelism.weight_exchange == WeightExchange::Broadcast)
    return std::vector<OpIndex>(buckets.size(), broadcast(buckets));
  std::vector<OpIndex> gathers(buckets.size(), kNone);
  for (std::size_t bucket = buckets.size(); bucket-- > 0;)
    gathers[bucket] = gather(buckets[bucket]);
  return gathers;
}

OpIndex WeightGathers::gather(const Bucket& bucket) {
  const ShardSlots slots = slots_of(options_.parallelism, bucket);
  if (slots.shards == 1 || bucket.parameters == 0) return kNone;
  const DataType wire = options_.weight_wire;
  const ChosenCall call = options_.collectives.call(
      GroupKind::Data, CollectiveOp::AllGather,
      bucket.parameters * static_cast<std::int64_t>(element_bytes(wire)), wire);
  const Tags before = build_.tags();
  build_.tag({.part = StepPart::ParamSync});
  const OpIndex op = build_.collective("parameter_all_gather", Stream::Data, slots.shard, call,
                                       {build_.last_compute()});
  build_.tag(before);
  return op;
}

// Broadcasts each owner's share of all buckets at once, one owner after the other. All shares have
// the same size and a call does not name its root, so that all calls are equal.
OpIndex WeightGathers::broadcast(std::span<const Bucket> buckets) {
  std::int64_t parameters = 0;
  for (const Bucket& bucket : buckets) parameters += bucket.parameters;
  if (parameters == 0) return kNone;
  const ShardSlots slots = slots_of(options_.parallelism, buckets.front());
  if (slots.shards == 1) return kNone;
  const DataType wire = options_.weight_wire;
  const std::int64_t owned = (parameters + slots.shards - 1) / slots.shards;
  const ChosenCall call =
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

void BucketShare::wait_for(std::size_t entry, ProgramBuilder& build) const {
  for (std::size_t bucket = 0; bucket < gathers_.size(); ++bucket)
    if (entry >= buckets_[bucket].begin && entry < buckets_[bucket].end)
      build.wait_for(gathers_[bucket]);
}

// ---- gradients

void BucketShare::restart() {
  next_ = opened_ = seen_ = 0;
  final_.clear();
}

// Takes buckets in order until one begins after these entries, or begins among them and ends after
// them. The latter counts from the next unit on (see the head of the file).
std::vector<Bucket> BucketShare::opened_by(std::size_t begin, std::size_t end) {
  std::vector<Bucket> opened;
  for (; opened_ < buckets_.size(); ++opened_) {
    const Bucket& bucket = buckets_[opened_];
    const bool filled_here = bucket.begin <= begin || bucket.end <= end;
    if (bucket.begin >= end || !filled_here) break;
    if (bucket.parameters > 0) opened.push_back(bucket);
  }
  return opened;
}

// `ready` contains all gradients of the microbatch so far, and only those after seen_ are new. A
// bucket is full when the last issued of its gradients is final.
std::vector<BucketShare::Filled> BucketShare::filled_by(const std::vector<ReadyGradient>& ready) {
  for (const ReadyGradient& gradient : std::span(ready).subspan(seen_))
    if (gradient.expert == experts_) final_.push_back(gradient.op);
  seen_ = ready.size();
  std::vector<Filled> filled;
  for (; next_ < buckets_.size() && buckets_[next_].end <= final_.size(); ++next_) {
    OpIndex latest = 0;
    for (std::size_t i = buckets_[next_].begin; i < buckets_[next_].end; ++i)
      latest = std::max(latest, final_[i]);
    filled.push_back({buckets_[next_], latest});
  }
  return filled;
}

// Waits for the oldest units only if all their reductions are issued. To wait for one that is not
// issued yet would be a deadlock: it needs gradients that are still to be computed.
void BucketLimiter::make(std::size_t buckets, std::int64_t limit, ProgramBuilder& build) {
  held_.push_back({.unreduced = buckets});
  while (static_cast<std::int64_t>(held_.size()) > limit && held_.front().unreduced == 0) {
    build.wait_for(held_.front().reduction);
    held_.pop_front();
  }
}

void BucketLimiter::reduced(OpIndex reduction) {
  const auto held = std::ranges::find_if(held_, [](const Held& one) { return one.unreduced > 0; });
  if (held == held_.end()) return;
  --held->unreduced;
  held->reduction = reduction;
}

void BucketLimiter::save(ReplicaState& state) const {
  state.values.push_back(std::ssize(held_));
  for (const Held& held : held_) {
    state.values.push_back(static_cast<std::int64_t>(held.unreduced));
    state.operations.push_back(held.reduction);
  }
}

void BucketLimiter::restore(std::span<const OpIndex>& operations,
                            std::span<const std::int64_t>& values) {
  const auto units = static_cast<std::size_t>(values.front());
  held_.clear();
  for (std::size_t unit = 0; unit < units; ++unit)
    held_.push_back(
        {.unreduced = static_cast<std::size_t>(values[1 + unit]), .reduction = operations[unit]});
  values = values.subspan(1 + units);
  operations = operations.subspan(units);
}

// ---- the scheme

BucketedReplicas::BucketedReplicas(const DataParallelParts& parts)
    : options_(parts.options),
      shape_(parts.shape),
      build_(parts.build),
      weights_(parts.chunks),
      parameters_(parts.parameters),
      gradients_(parts.options.gradients, parts.shape, parts.build),
      order_(chunk_order(parts.options.parallelism, parts.chunks)),
      reductions_(2, kNone) {
  const auto share = [this](const ChunkWeights& weights, bool experts) {
    return BucketShare(experts,
                       buckets_of(options_.parallelism, shape_.gradient, weights, experts));
  };
  for (const ChunkWeights& weights : weights_)
    chunks_.push_back({.dense = share(weights, false), .experts = share(weights, true)});
}

// Whether gradients exist only until their bucket is reduced: ZeRO 2 that reduces after every
// microbatch, or that has only one.
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

void BucketedReplicas::gather_weights() {
  if (options_.parallelism.zero_stage == 0) return;
  WeightGathers weights(options_, build_);
  for (const std::size_t number : order_)
    for (BucketShare* share : {&chunks_[number].dense, &chunks_[number].experts})
      share->gathered_by(weights.gather(share->buckets()));
}

// The forward waits for the bucket of the unit's first entry. Buckets are gathered in reverse order
// on one stream, so that this one is the last of the unit's buckets to arrive. Only the first
// forward of a chunk waits.
void BucketedReplicas::before_forward(const UnitIndex& place) {
  const Chunk& chunk = chunks_[place.chunk];
  if (chunk.entered) return;
  const WeightUnit& unit = weights_[place.chunk].units[place.unit];
  if (unit.end > unit.begin) chunk.dense.wait_for(unit.begin, build_);
  if (unit.experts_end > unit.experts_begin) chunk.experts.wait_for(unit.experts_begin, build_);
}

void BucketedReplicas::after_forward(const UnitIndex& place) {
  if (place.unit + 1 == weights_[place.chunk].units.size()) chunks_[place.chunk].entered = true;
}

void BucketedReplicas::before_backward(const UnitBackward& backward) {
  if (backward.part == BackwardPart::Input || !gradients_sharded()) return;
  const WeightUnit& unit = weights_[backward.place.chunk].units[backward.place.unit];
  Chunk& chunk = chunks_[backward.place.chunk];
  enter(chunk);
  hold_opened(chunk.dense, unit.begin, unit.end);
  hold_opened(chunk.experts, unit.experts_begin, unit.experts_end);
}

// Allocates the buckets for the gradients of entries [begin, end), which come next.
void BucketedReplicas::hold_opened(BucketShare& share, std::size_t begin, std::size_t end) {
  const std::vector<Bucket> opened = share.opened_by(begin, end);
  for (const Bucket& bucket : opened)
    build_.memory().allocate(build_.next(), Category::Gradients,
                             bucket.parameters * shape_.gradient);
  if (opened.empty()) return;
  (share.experts() ? expert_room_ : free_capacity_)
      .make(opened.size(), options_.buckets_in_flight, build_);
}

// Starts the reduction of every bucket whose last gradient is now final: in the last backward of a
// chunk, or with ZeRO 2 after every microbatch. Without overlap, ZeRO 2 waits for the reductions at
// once; other schemes reduce at the end of the step.
void BucketedReplicas::after_backward(const UnitBackward& backward,
                                      const std::vector<ReadyGradient>& ready) {
  const bool every = partitions_every_microbatch(options_.parallelism);
  if (backward.part == BackwardPart::Input || !(backward.last || every)) return;
  Chunk& chunk = chunks_[backward.place.chunk];
  enter(chunk);
  if (!options_.parallelism.overlap_grad_reduce && !every) return;
  bool any = false;
  for (BucketShare* share : {&chunk.experts, &chunk.dense}) {
    for (const auto& [bucket, at] : share->filled_by(ready)) {
      reduce(bucket, at);
      any = true;
    }
  }
  if (!options_.parallelism.overlap_grad_reduce && any)
    for (const OpIndex reduction : reductions_) build_.wait_for(reduction);
}

// Resets the buckets when a backward has another microbatch than the one before. The end of the
// embedding's backward is no such signal, because a frozen embedding has no backward.
void BucketedReplicas::enter(Chunk& chunk) {
  if (chunk.microbatch == build_.tags().microbatch) return;
  chunk.microbatch = build_.tags().microbatch;
  chunk.dense.restart();
  chunk.experts.restart();
}

// The buckets of a chunk restart with the next microbatch, so that between two steps only the
// reductions are remembered. Where the framework holds many buckets at once, the list of them
// grows from step to step.
std::optional<ReplicaState> BucketedReplicas::state() const {
  constexpr std::size_t kMostUnits = 16;
  if (!gradients_sharded()) return ReplicaState{};
  if (free_capacity_.units() + expert_room_.units() > kMostUnits) return std::nullopt;
  ReplicaState state{.operations = reductions_};
  free_capacity_.save(state);
  expert_room_.save(state);
  return state;
}

void BucketedReplicas::restore(const ReplicaState& state) {
  if (!gradients_sharded()) return;
  std::span<const OpIndex> operations = state.operations;
  std::span<const std::int64_t> values = state.values;
  std::ranges::copy(operations.first(reductions_.size()), reductions_.begin());
  operations = operations.subspan(reductions_.size());
  free_capacity_.restore(operations, values);
  expert_room_.restore(operations, values);
}

void BucketedReplicas::reduce_rest(const Chunk& chunk) {
  for (const BucketShare* share : {&chunk.dense, &chunk.experts})
    for (const Bucket& bucket : share->buckets()) reduce(bucket, build_.last_compute());
}

// Writes the reduction of a bucket. With several sharded copies it has two levels: a reduce_scatter
// within the copy, then an all_reduce of the shard over the copies, on another stream.
void BucketedReplicas::reduce(const Bucket& bucket, OpIndex after) {
  if (bucket.parameters == 0) return;  // all weights are frozen
  const ShardSlots slots = slots_of(options_.parallelism, bucket);
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
    build_.memory().release(reductions_[0], Category::Gradients, bytes);
    (of_experts(bucket) ? expert_room_ : free_capacity_).reduced(reductions_[0]);
  }
  if (slots.shards > 1 && slots.replicas > 1) {
    const ChosenCall rest = options_.collectives.call(GroupKind::Data, CollectiveOp::AllReduce,
                                                      bytes / slots.shards, wire);
    reductions_[1] = build_.collective("gradient_all_reduce", Stream::Replica, slots.replica, rest,
                                       {reductions_[0]});
  }
  build_.tag(before);
}

// Weights with one replica have no bucket, but the framework may still scale and check their
// gradients.
void BucketedReplicas::passes_without_reduction() {
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
    for (const std::size_t number : order_) reduce_rest(chunks_[number]);
  }
  passes_without_reduction();
  gradients_.finish(parameters_, reductions_);
  if (!options_.parallelism.overlap_param_gather) gather_weights();
}

}  // namespace

std::unique_ptr<DataParallel> make_bucketed_replicas(const DataParallelParts& parts) {
  return std::make_unique<BucketedReplicas>(parts);
}

}  // namespace trainyard
