// ZeRO 3 in the way of PyTorch's FSDP2: ranks hold shards of the weights, and gather whole weights
// group by group around forward and backward. Each layer is a group; embedding, final norm and head
// together are the root group.
//
// Order of operations, after PyTorch's torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py:
//   - forward: group i+1 is gathered on a separate stream while group i computes. The gather starts
//     when group i-1 has been copied out of its buffer, so that at most two gathered buffers exist;
//   - backward: the next group is gathered when the current one has been copied out;
//   - gradients of a group are copied into the input of a reduce_scatter on another stream when the
//     previous reduce_scatter has ended. With several copies of the model, an all_reduce over the
//     copies follows.
// For L equal layers with gather time g and forward time F, the forward takes g + LF if g <= F,
// else Lg + F (tests/models/lower/fully_sharded_test.cpp).
//
// Bytes sent by a rank for each microbatch, with f = (s-1)/s, P parameters, w_p bytes per weight
// and w_g per gradient: fP(2 w_p + w_g). The root saves one of its gathers unless it is resharded
// after the forward, too. The kernel of the gather writes the copy of the shards in lower
// precision; this traffic (1/s) is not counted. Frozen weights are sharded and gathered with their
// group, in the backward only where the backward passes, and not reduced: with P trained and Q
// frozen parameters f(P + Q) w_p for a gather and fP w_g (tests/models/lower/frozen_test.cpp).
// PyTorch also gathers the layer before the first trained one during the backward and frees it
// unread; this is not modelled.
//
// If k layers are recomputed together, all but the last are gathered for the recomputation and once
// more for their backward: 2k - 1 gathers (tests/models/lower/fully_sharded_test.cpp).
//
// Shards in host memory (offload.weights; FSDP2's CPUOffloadPolicy, ZeRO-Infinity, Rajbhandari et
// al. 2104.07857) are fetched in their stored precision before every gather that starts from them:
// in fp32 4P/s bytes (tests/models/lower/offload_test.cpp).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/lower/data_parallel/data_parallel.hpp"
#include "models/lower/data_parallel/shards.hpp"
#include "models/lower/offload.hpp"

namespace trainyard {

namespace {

// State of a group's weights. Gathered: a gather into a communication buffer has been issued.
// Whole: they have been copied out of the buffer, and kernels may read them.
enum class ShardedWeights : std::uint8_t { Sharded, Gathered, Whole };

// One class of weights of a group with the same replicas: its experts, or all other weights.
struct ShardedPart {
  std::int64_t trained = 0;  // parameters, rows of each tensor padded to a multiple of the shards
  std::int64_t wire = 0;     // bytes when gathered, including frozen weights; 0: not sharded
  std::int64_t shard = 0;    // bytes of this rank's shard in its stored precision
  std::int64_t kept = 0;     // bytes that stay after the forward; all: the backward needs no gather
  OpIndex gather = kNone;
};

// Weights that are gathered together and whose gradients are reduced together.
struct ShardedGroup {
  std::int32_t layer = -1;
  std::size_t first_unit = 0;  // first and last unit of the group
  std::size_t last_unit = 0;
  std::size_t forward_ends_at = 0;          // last unit whose forward reads the weights
  std::optional<std::size_t> ends_at = {};  // last unit whose backward reads them, if there is one
  ShardedPart dense = {};
  ShardedPart experts = {};
  ShardedWeights weights = ShardedWeights::Sharded;
  std::int64_t gradients = 0;    // bytes of this microbatch's gradients, in training precision
  std::int64_t accumulated = 0;  // bytes of the sums so far, in the precision of the reduction
  [[nodiscard]] bool is_root() const { return layer < 0; }
  [[nodiscard]] std::int64_t trained() const { return dense.trained + experts.trained; }
  [[nodiscard]] std::int64_t wire() const { return dense.wire + experts.wire; }
};

// Number of shards and their groups, for experts and for all other weights.
struct ShardGroups {
  ShardSlots dense;
  ShardSlots experts;
};

// Gathers weights from their shards and frees them.
class ShardGathers {
 public:
  // All arguments outlive the object.
  ShardGathers(const ReplicaOptions& options, const ShardGroups& slots, ProgramBuilder& build)
      : options_(options), slots_(slots), build_(build) {}

  // The next gathers wait for all computation so far.
  void wait_for_computation() { gather_after_ = build_.last_compute(); }
  // Gathers the weights of a group into a buffer, and then its experts, which have their own
  // replicas, into another one. Does nothing if they are gathered or whole.
  void gather(ShardedGroup& group);
  // Makes the weights of a group available to the next compute operation; gathers them if
  // necessary.
  void use(ShardedGroup& group, Pass pass);
  // Frees the whole weights of a group. `keeps`: the part from which the backward gathers stays
  // (reshard_group).
  void give_back(ShardedGroup& group, bool keeps);
  // The operations that the next gathers may wait for. use() takes the later one of the two.
  [[nodiscard]] std::array<OpIndex, 2> gates() const { return {copied_out_, gather_after_}; }
  void set_gates(const std::array<OpIndex, 2>& gates) {
    copied_out_ = gates[0];
    gather_after_ = gates[1];
  }

 private:
  void gather_part(std::string_view name, ShardedPart& part, const ShardSlots& slots);
  [[nodiscard]] std::int64_t take(ShardedPart& part);

  const ReplicaOptions& options_;
  const ShardGroups& slots_;
  ProgramBuilder& build_;
  OpIndex copied_out_ = kNone;    // the latest copy out of a gathered buffer
  OpIndex gather_after_ = kNone;  // the next gather waits for it
};

// Accumulates gradients and reduces them to shards.
class ShardReductions {
 public:
  ShardReductions(const ReplicaOptions& options, const ShardGroups& slots, const StepShape& shape,
                  ProgramBuilder& build)
      : options_(options), slots_(slots), shape_(shape), build_(build) {}

  // Adds this microbatch's gradients to the sums, which have the precision of the reduction.
  void accumulate(ShardedGroup& group);
  void reduce(ShardedGroup& group);
  // The latest reduction on each stream.
  [[nodiscard]] std::array<OpIndex, 2> latest() const { return {reduce_scatter_, all_reduce_}; }
  void set_latest(const std::array<OpIndex, 2>& latest) {
    reduce_scatter_ = latest[0];
    all_reduce_ = latest[1];
  }

 private:
  void reduce_part(std::string_view name, const ShardedPart& part, const ShardSlots& slots,
                   OpIndex after);

  const ReplicaOptions& options_;
  const ShardGroups& slots_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  OpIndex reduce_scatter_ = kNone;
  OpIndex all_reduce_ = kNone;
};

class FullySharded final : public DataParallel {
 public:
  explicit FullySharded(const DataParallelParts& parts);

  void begin_step() override;
  void before_forward(const UnitIndex& place) override;
  void after_forward(const UnitIndex& place) override;
  void before_recompute(const UnitIndex& place) override;
  void after_recompute(const UnitIndex& place) override;
  void before_backward(const UnitBackward& backward) override;
  void after_backward(const UnitBackward& backward,
                      const std::vector<ReadyGradient>& ready) override;
  [[nodiscard]] std::optional<ReplicaState> state() const override;
  void restore(const ReplicaState& state) override;
  void end_step() override;

 private:
  using Group = ShardedGroup;
  [[nodiscard]] Group& group_at(const UnitIndex& place);
  [[nodiscard]] bool gives_back(const Group& group) const;
  [[nodiscard]] bool keeps_between_microbatches() const;
  void gather_ahead(const UnitBackward& backward);
  void end_backward(Group& group, const UnitBackward& backward);

  const ReplicaOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  const std::vector<ChunkWeights>& weights_;
  const StageParameters& parameters_;
  GradientLowering gradients_;
  const ShardGroups slots_;
  ShardGathers gathers_;
  ShardReductions reductions_;
  std::vector<std::vector<Group>> groups_;          // by chunk; in forward order
  std::vector<std::vector<std::size_t>> group_of_;  // by chunk and unit
};

// Number of elements in one gather or reduce_scatter of a tensor. The first dimension is divided
// into equal parts, of which the last ones may be short or empty; they are padded.
std::int64_t padded(const Tensor& tensor, std::int64_t shards) {
  return (tensor.rows + shards - 1) / shards * shards * tensor.columns;
}

std::int64_t padded(const std::vector<Tensor>& tensors, std::int64_t shards) {
  std::int64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += padded(tensor, shards);
  return sum;
}

// The first unit of a chunk that the backward reaches, where the backward of the chunk ends.
std::size_t first_reached(const ChunkWeights& weights) {
  const auto first = std::ranges::find_if(weights.units, &WeightUnit::reached);
  return static_cast<std::size_t>(first - weights.units.begin());
}

// The weights of one unit.
struct UnitParts {
  ShardedPart dense;
  ShardedPart experts;
};

UnitParts unit_parts(const ReplicaOptions& options, const ShardGroups& groups,
                     const StepShape& shape, const ChunkWeights& weights, const WeightUnit& unit) {
  const double sent = element_bytes(options.weight_wire);
  const double stored = state_bytes_per_parameter(options.gradients.optimizer.state).weights;
  // Beside adapters, frozen weights are sent and stored in the precision of training, or in their
  // own format; without adapters, as trained ones are.
  const auto of_frozen = [&](double as_trained) {
    return options.adapters.any() ? static_cast<double>(shape.element) : as_trained;
  };
  const auto part = [&](std::span<const GradientEntry> entries,
                        const std::vector<Tensor>& frozen_tensors, std::int64_t shards) {
    ShardedPart one;
    for (const GradientEntry& entry : entries) one.trained += padded(entry.tensors, shards);
    if (shards == 1) return one;
    const auto bytes = [&](double each) {
      double sum = each * static_cast<double>(one.trained);
      for (const Tensor& tensor : frozen_tensors)
        sum += frozen_element_bytes(options.adapters, unit, tensor, of_frozen(each)) *
               static_cast<double>(padded(tensor, shards));
      return std::llround(sum);
    };
    one.wire = bytes(sent);
    one.shard = bytes(stored) / shards;
    return one;
  };
  UnitParts parts;
  parts.dense = part(std::span(weights.entries).subspan(unit.begin, unit.end - unit.begin),
                     unit.frozen, groups.dense.shards);
  if (groups.experts.all == 1) return parts;  // experts without replicas: never sharded or reduced
  parts.experts = part(
      std::span(weights.experts).subspan(unit.experts_begin, unit.experts_end - unit.experts_begin),
      unit.frozen_experts, groups.experts.shards);
  return parts;
}

void add(ShardedPart& sum, const ShardedPart& part) {
  sum.trained += part.trained;
  sum.wire += part.wire;
  sum.shard += part.shard;
}

// The groups of a chunk in forward order. The root is first, because it is gathered before all
// others. If the root has both embedding and head, its backward ends with that of the chunk.
std::vector<ShardedGroup> groups_of(const ChunkWeights& weights,
                                    const std::vector<UnitParts>& parts,
                                    std::int64_t model_layers) {
  std::vector<ShardedGroup> groups;
  for (std::size_t number = 0; number < weights.units.size(); ++number) {
    const WeightUnit& unit = weights.units[number];
    const bool joins_root = !unit.is_layer() && !groups.empty() && groups.front().is_root();
    if (!joins_root) {
      const auto where = unit.is_layer() ? groups.end() : groups.begin();
      groups.insert(where, ShardedGroup{.layer = unit.layer, .first_unit = number});
    }
    ShardedGroup& group = unit.is_layer() ? groups.back() : groups.front();
    group.last_unit = group.forward_ends_at = number;
    if (unit.reached && !group.ends_at) group.ends_at = number;
    add(group.dense, parts[number].dense);
    add(group.experts, parts[number].experts);
  }
  if (groups.empty()) return groups;
  ShardedGroup& root = groups.front();
  if (root.is_root() && root.first_unit != root.last_unit) root.ends_at = first_reached(weights);
  // Layers of multi-token prediction come after the head and use it once more.
  const bool mtp_uses_root = root.is_root() && weights.units.back().layer >= model_layers;
  if (mtp_uses_root) root.forward_ends_at = weights.units.size() - 1;
  return groups;
}

// ---- weights

// Writes the gather of one class of weights. It starts from the shards, or from the larger parts
// that have stayed since the forward (hpZ), which are within a smaller group.
void ShardGathers::gather_part(std::string_view name, ShardedPart& part, const ShardSlots& slots) {
  if (part.kept == part.wire) return;
  const bool fetches = options_.fetches_shards && part.kept == 0;
  const ChosenCall call = options_.collectives.call(GroupKind::Data, CollectiveOp::AllGather,
                                                    part.wire, options_.weight_wire);
  const OpIndex fetched =
      fetches ? copy_from_host(build_, "weight_shard_fetch", part.shard, {gather_after_}) : kNone;
  part.gather =
      build_.collective(name, Stream::AllGather, part.kept > 0 ? slots.reshard : slots.shard, call,
                        {fetches ? fetched : gather_after_});
  build_.memory().allocate(part.gather, Category::Communication, part.wire);
  if (!fetches) return;
  build_.memory().allocate(fetched, Category::Communication, part.shard);
  build_.memory().release(part.gather, Category::Communication, part.shard);
}

void ShardGathers::gather(ShardedGroup& group) {
  if (group.weights != ShardedWeights::Sharded || group.wire() == 0) return;
  const Tags before = build_.tags();
  Tags tags = before;
  tags.part = StepPart::ParamSync;
  tags.layer = group.layer;
  build_.tag(tags);
  gather_part("weight_all_gather", group.dense, slots_.dense);
  gather_part("expert_weight_all_gather", group.experts, slots_.experts);
  build_.tag(before);
  group.weights = ShardedWeights::Gathered;
}

// Bytes that the next compute operation copies out of the gathered buffer.
std::int64_t ShardGathers::take(ShardedPart& part) {
  const std::int64_t gathered = part.gather == kNone ? 0 : part.wire;
  build_.wait_for(part.gather);
  part.gather = kNone;
  return gathered;
}

// Copies a group out of its buffer and decides when the next gather may start. In the backward that
// is after this copy. In the forward it is after the copy before: the next gather fills one buffer
// while this group is copied out of the other. Copies run in order on the compute stream, so that
// of two operations the one with the higher number is the later condition.
void ShardGathers::use(ShardedGroup& group, Pass pass) {
  gather(group);
  if (group.weights != ShardedWeights::Gathered) return;
  group.weights = ShardedWeights::Whole;
  const OpIndex before = copied_out_;
  const std::int64_t bytes = take(group.dense) + take(group.experts);
  if (bytes > 0) {
    copied_out_ = build_.compute(
        "weight_copy_out",
        MemoryBound{.kind = MemoryBoundKind::Elementwise, .bytes = 2 * bytes, .launches = 1});
    build_.memory().allocate(copied_out_, Category::UnshardedWeights, bytes);
    build_.memory().release(copied_out_, Category::Communication, bytes);
  }
  for (ShardedPart* part : {&group.dense, &group.experts}) {
    if (part->kept < part->wire)
      build_.memory().release(copied_out_, Category::UnshardedWeights, part->kept);
    part->kept = 0;
  }
  // The forward has two buffers, the backward one.
  const OpIndex free_after = pass == Pass::Backward ? copied_out_ : before;
  if (free_after == kNone) return;
  gather_after_ = gather_after_ == kNone ? free_after : std::max(gather_after_, free_after);
}

void ShardGathers::give_back(ShardedGroup& group, bool keeps) {
  if (group.weights != ShardedWeights::Whole) return;
  const auto kept = [keeps](const ShardedPart& part, const ShardSlots& slots) {
    return keeps && slots.kept_by > 0 ? part.wire / slots.kept_by : 0;
  };
  group.dense.kept = kept(group.dense, slots_.dense);
  group.experts.kept = kept(group.experts, slots_.experts);
  build_.memory().release(build_.last_compute(), Category::UnshardedWeights,
                          group.wire() - group.dense.kept - group.experts.kept);
  group.weights = ShardedWeights::Sharded;
}

// ---- gradients

// The first microbatch converts its gradients to the precision of the sums; later ones also read
// the sums.
void ShardReductions::accumulate(ShardedGroup& group) {
  const std::int64_t wide = group.gradients / shape_.element * shape_.gradient;
  const std::int64_t touches = group.accumulated > 0 ? 2 * wide : wide;
  const OpIndex add =
      build_.compute("gradient_accumulate", MemoryBound{.kind = MemoryBoundKind::GradAccumulate,
                                                        .bytes = group.gradients + touches,
                                                        .launches = 1});
  build_.memory().release(add, Category::Gradients, group.gradients);
  group.gradients = 0;
  if (group.accumulated > 0) return;
  build_.memory().allocate(add, Category::Gradients, wide);
  group.accumulated = wide;
}

// Copies the gradients of a group into the input of its reduce_scatter. Gradients that no other
// rank shares are only freed.
void ShardReductions::reduce(ShardedGroup& group) {
  const std::int64_t dense = slots_.dense.all > 1 ? group.dense.trained : 0;
  const std::int64_t reduced = dense + group.experts.trained;
  const std::int64_t source = group.gradients + group.accumulated;
  group.gradients = group.accumulated = 0;
  if (reduced == 0) {
    build_.memory().release(build_.last_compute(), Category::Gradients, source);
    return;
  }
  const Tags before = build_.tags();
  Tags tags = before;
  tags.part = StepPart::GradSync;
  tags.layer = group.layer;
  build_.tag(tags);
  build_.wait_for(reduce_scatter_);  // at most one reduce_scatter is under way
  const OpIndex copy_in =
      build_.compute("gradient_copy_in", MemoryBound{.kind = MemoryBoundKind::Elementwise,
                                                     .bytes = source + reduced * shape_.gradient,
                                                     .launches = 1});
  build_.memory().release(copy_in, Category::Gradients, source);
  if (dense > 0) reduce_part("gradient_", group.dense, slots_.dense, copy_in);
  if (group.experts.trained > 0)
    reduce_part("expert_gradient_", group.experts, slots_.experts, copy_in);
  build_.tag(before);
}

// Reduces a buffer that `after` fills. With several copies of the model, the shards are then
// all_reduced over the copies.
void ShardReductions::reduce_part(std::string_view name, const ShardedPart& part,
                                  const ShardSlots& slots, OpIndex after) {
  const CollectiveOp op = slots.shards > 1 ? CollectiveOp::ReduceScatter : CollectiveOp::AllReduce;
  const std::int64_t bytes = part.trained * shape_.gradient;
  const DataType wire = options_.gradient_wire;
  build_.memory().allocate(after, Category::Communication, bytes);
  const std::string text(name);
  reduce_scatter_ =
      build_.collective(text + std::string(to_string(op)), Stream::ReduceScatter, slots.shard,
                        options_.collectives.call(GroupKind::Data, op, bytes, wire), {after});
  build_.memory().release(reduce_scatter_, Category::Communication, bytes);
  if (slots.shards == 1 || slots.replicas == 1) return;
  const ChosenCall rest = options_.collectives.call(GroupKind::Data, CollectiveOp::AllReduce,
                                                    bytes / slots.shards, wire);
  all_reduce_ = build_.collective(text + "all_reduce", Stream::Replica, slots.replica, rest,
                                  {reduce_scatter_});
}

// ---- the scheme

FullySharded::FullySharded(const DataParallelParts& parts)
    : options_(parts.options),
      shape_(parts.shape),
      build_(parts.build),
      weights_(parts.chunks),
      parameters_(parts.parameters),
      gradients_(parts.options.gradients, parts.shape, parts.build),
      slots_{.dense = shard_slots(parts.options.parallelism, Slot::Data),
             .experts = expert_shard_slots(parts.options.parallelism, Slot::ExpertData)},
      gathers_(options_, slots_, build_),
      reductions_(options_, slots_, shape_, build_) {
  for (const ChunkWeights& weights : weights_) {
    std::vector<UnitParts> units;
    for (const WeightUnit& unit : weights.units)
      units.push_back(unit_parts(options_, slots_, shape_, weights, unit));
    groups_.push_back(groups_of(weights, units, options_.model_layers));
  }
  for (std::size_t chunk = 0; chunk < groups_.size(); ++chunk) {
    group_of_.emplace_back(weights_[chunk].units.size());
    for (std::size_t group = 0; group < groups_[chunk].size(); ++group) {
      group_of_[chunk][groups_[chunk][group].first_unit] = group;
      group_of_[chunk][groups_[chunk][group].last_unit] = group;
    }
  }
}

FullySharded::Group& FullySharded::group_at(const UnitIndex& place) {
  return groups_[place.chunk][group_of_[place.chunk][place.unit]];
}

// Whether a group is resharded after its forward. Auto: every group except the root is, but none in
// a pipeline.
bool FullySharded::gives_back(const Group& group) const {
  switch (options_.parallelism.reshard_after_forward) {
    case Reshard::Always:
      return true;
    case Reshard::Never:
      return false;
    case Reshard::Auto:
      return options_.parallelism.pipeline == 1 && !group.is_root();
  }
  return false;
}

// Whether weights stay whole from one microbatch to the next. In a pipeline, the forward of the
// next microbatch may come before the backward of this one and needs the weights, too.
bool FullySharded::keeps_between_microbatches() const {
  return options_.parallelism.pipeline > 1 &&
         options_.parallelism.reshard_after_forward != Reshard::Always;
}

void FullySharded::begin_step() { hold_state(options_.gradients, parameters_, {}, build_); }

void FullySharded::before_forward(const UnitIndex& place) {
  std::vector<Group>& groups = groups_[place.chunk];
  if (place.unit == 0) {
    gathers_.wait_for_computation();  // not before the optimizer step, nor a microbatch ahead
    gathers_.use(groups.front(), Pass::Forward);
  }
  const std::size_t number = group_of_[place.chunk][place.unit];
  gathers_.use(groups[number], Pass::Forward);
  const auto ahead = static_cast<std::size_t>(options_.parallelism.forward_prefetch);
  for (std::size_t next = number + 1; next < groups.size() && next <= number + ahead; ++next)
    gathers_.gather(groups[next]);
}

// The root also ends here if this is the last unit whose forward reads it.
void FullySharded::after_forward(const UnitIndex& place) {
  Group& own = group_at(place);
  Group& root = groups_[place.chunk].front();
  for (Group* group : {&own, &root}) {
    if (place.unit == group->forward_ends_at && gives_back(*group))
      gathers_.give_back(*group, group->ends_at.has_value());
    if (&own == &root) break;
  }
}

void FullySharded::before_recompute(const UnitIndex& place) {
  gathers_.use(group_at(place), Pass::Backward);
}

void FullySharded::after_recompute(const UnitIndex& place) {
  Group& group = group_at(place);
  if (gives_back(group)) gathers_.give_back(group, true);
}

// Prefetches the group that the backward needs next. The input part of a split backward ends before
// the embedding, which has no input gradient.
void FullySharded::gather_ahead(const UnitBackward& backward) {
  const UnitIndex& place = backward.place;
  if (!options_.parallelism.backward_prefetch || place.unit == 0) return;
  const UnitIndex before{.chunk = place.chunk, .unit = place.unit - 1};
  const WeightUnit& unit = weights_[before.chunk].units[before.unit];
  if (backward.part == BackwardPart::Input && !unit.is_layer()) return;
  if (unit.reached) gathers_.gather(group_at(before));
}

void FullySharded::before_backward(const UnitBackward& backward) {
  Group& group = group_at(backward.place);
  if (backward.part != BackwardPart::Weight) {
    // No gather starts before the backward begins, and without prefetch none starts before the
    // backward of its own unit.
    const bool enters = backward.place.unit + 1 == weights_[backward.place.chunk].units.size();
    if (enters || !options_.parallelism.backward_prefetch) gathers_.wait_for_computation();
    Group& root = groups_[backward.place.chunk].front();
    const bool mtp_uses_root = root.forward_ends_at > root.last_unit;
    if (mtp_uses_root && backward.place.unit > root.last_unit) gathers_.use(root, Pass::Backward);
    gathers_.use(group, Pass::Backward);
    gather_ahead(backward);
  }
  if (backward.part == BackwardPart::Input) return;
  const ChunkWeights& weights = weights_[backward.place.chunk];
  const WeightUnit& unit = weights.units[backward.place.unit];
  std::int64_t parameters = weights.parameters(unit);
  if (slots_.experts.all > 1) parameters += weights.expert_parameters(unit);
  const std::int64_t bytes = parameters * shape_.element;
  build_.memory().allocate(build_.next(), Category::Gradients, bytes);
  group.gradients += bytes;
}

// Without a pipeline, the end of a backward waits for all reductions.
void FullySharded::after_backward(const UnitBackward& backward,
                                  const std::vector<ReadyGradient>& /*ready*/) {
  const UnitIndex& place = backward.place;
  Group& own = group_at(place);
  Group& root = groups_[place.chunk].front();
  for (Group* group : {&own, &root}) {
    if (group->ends_at == place.unit) end_backward(*group, backward);
    if (&own == &root) break;
  }
  const bool last = place.unit == first_reached(weights_[place.chunk]);
  if (!last || backward.part == BackwardPart::Input || options_.parallelism.pipeline > 1) return;
  for (const OpIndex reduction : reductions_.latest()) build_.wait_for(reduction);
}

// The last unit of a group has had its backward: frees the weights, unless the next microbatch
// needs them, and accumulates or reduces the gradients. In a pipeline, gradients are reduced only
// after the last microbatch. Otherwise reduce_every_microbatch decides.
void FullySharded::end_backward(Group& group, const UnitBackward& backward) {
  const bool keeps = keeps_between_microbatches();
  if (keeps ? backward.last : backward.part != BackwardPart::Weight || group.is_root())
    gathers_.give_back(group, false);
  if (backward.part == BackwardPart::Input || group.trained() == 0) return;
  const bool every =
      options_.parallelism.reduce_every_microbatch && options_.parallelism.pipeline == 1;
  if (!every && (!backward.last || group.accumulated > 0)) reductions_.accumulate(group);
  if (!every && !backward.last) return;
  reductions_.reduce(group);
}

// Few gathers are under way between two steps, so that only those are listed.
std::optional<ReplicaState> FullySharded::state() const {
  ReplicaState state;
  const std::array<OpIndex, 2> gates = gathers_.gates();
  const std::array<OpIndex, 2> reductions = reductions_.latest();
  state.operations.assign(gates.begin(), gates.end());
  state.operations.insert(state.operations.end(), reductions.begin(), reductions.end());
  state.values.push_back(gates[0] < gates[1] ? 1 : 0);
  for (const std::vector<Group>& groups : groups_) {
    for (const Group& group : groups) {
      state.values.insert(state.values.end(), {static_cast<std::int64_t>(group.weights),
                                               group.gradients, group.accumulated});
      for (const ShardedPart* part : {&group.dense, &group.experts}) {
        state.values.insert(state.values.end(), {part->kept, part->gather == kNone ? 0 : 1});
        if (part->gather != kNone) state.operations.push_back(part->gather);
      }
    }
  }
  return state;
}

void FullySharded::restore(const ReplicaState& state) {
  auto operation = state.operations.begin();
  auto value = state.values.begin() + 1;
  const auto next_two = [&] { return std::array{*operation++, *operation++}; };
  gathers_.set_gates(next_two());
  reductions_.set_latest(next_two());
  for (std::vector<Group>& groups : groups_) {
    for (Group& group : groups) {
      group.weights = static_cast<ShardedWeights>(*value++);
      group.gradients = *value++;
      group.accumulated = *value++;
      for (ShardedPart* part : {&group.dense, &group.experts}) {
        part->kept = *value++;
        part->gather = *value++ == 0 ? kNone : *operation++;
      }
    }
  }
}

// Groups that had no backward, or only the input part of a split one, are still whole and
// are freed here.
void FullySharded::end_step() {
  for (std::vector<Group>& groups : groups_)
    for (Group& group : groups) gathers_.give_back(group, false);
  gradients_.finish(parameters_, reductions_.latest());
}

}  // namespace

std::unique_ptr<DataParallel> make_fully_sharded(const DataParallelParts& parts) {
  return std::make_unique<FullySharded>(parts);
}

}  // namespace trainyard
