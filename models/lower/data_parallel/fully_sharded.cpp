// ZeRO 3 as PyTorch's FSDP2 does it: weights live as shards and are gathered group by group (each
// layer; embedding, final norm and head together as the root) around forward and backward.
//
// Order of work, after torch/distributed/fsdp/_fully_shard (reference 03 section 4):
//   - forward: group i+1 is gathered on a stream of its own while group i computes, once i-1 has
//     been copied out of its buffer, so that at most two gathered buffers are there;
//   - backward: the next group is gathered when the one at hand has been copied out;
//   - gradients of a group are copied into the input of a reduce_scatter on another stream, when
//     the one before has ended; with several copies of the model, then all_reduced among them.
// Equal groups of L layers, gather g, forward F: g + LF where g <= F, else Lg + F (oracle 45).
//
// Bytes sent by a rank and microbatch, f = (s-1)/s, P parameters: fP(2 w_p + w_g), of which the
// root saves one gather unless it is given back too. A copy of the shards in less precision is
// written by the gather's own kernel; its 1/s is not counted. Frozen weights are sharded and
// gathered with the others of their group, backward where a gradient comes by, and not reduced:
// with P trained and Q frozen parameters f(P + Q) w_p a gather and fP w_g
// (tests/models/lower/frozen_test.cpp). PyTorch also asks for the layer before the first trained
// one during the backward, and drops it unread; that is left out.
//
// Where k layers are computed again at once, all but the last are gathered for that and once more
// for their backward: 2k - 1 gathers (tests/models/lower/fully_sharded_test.cpp).
//
// Shards that stand on the host (offload.weights; FSDP2's CPUOffloadPolicy, ZeRO-Infinity,
// Rajbhandari et al. 2104.07857) are fetched as they are kept before every gather that starts from
// them: 4P/s bytes (tests/models/lower/offload_test.cpp).
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

enum class ShardedWeights : std::uint8_t { Sharded, Gathered, Whole };

// Weights with the same replicas: the experts of a group, or all else.
struct ShardedPart {
  std::int64_t trained = 0;  // parameters, each tensor's rows padded to a multiple of the shards
  std::int64_t wire = 0;     // bytes of all, frozen ones included, as gathered; 0: held whole
  std::int64_t shard = 0;    // bytes of this rank's part, as it is kept
  std::int64_t kept = 0;     // bytes that outlive the forward; all: the backward gathers nothing
  OpIndex gather = kNone;
};

// Weights that are gathered, and whose gradients are reduced, together.
struct ShardedGroup {
  std::int32_t layer = -1;
  std::size_t first_unit = 0;  // units that it holds
  std::size_t last_unit = 0;
  std::size_t forward_ends_at = 0;          // the unit whose forward is the last to need it
  std::optional<std::size_t> ends_at = {};  // the unit whose backward is the last to need it
  ShardedPart dense = {};
  ShardedPart experts = {};
  ShardedWeights weights = ShardedWeights::Sharded;
  std::int64_t gradients = 0;    // bytes of this microbatch's, in the precision of training
  std::int64_t accumulated = 0;  // bytes of all microbatches' so far, as wide as they are reduced
  [[nodiscard]] bool is_root() const { return layer < 0; }
  [[nodiscard]] std::int64_t trained() const { return dense.trained + experts.trained; }
  [[nodiscard]] std::int64_t wire() const { return dense.wire + experts.wire; }
};

// Over how many ranks weights are divided: those of experts, and all others.
struct ShardGroups {
  ShardSlots dense;
  ShardSlots experts;
};

// Brings weights from their shards, and gives them back.
class ShardGathers {
 public:
  // All of it outlives this.
  ShardGathers(const ReplicaOptions& options, const ShardGroups& slots, const StepShape& shape,
               ProgramBuilder& build)
      : options_(options), slots_(slots), shape_(shape), build_(build) {}

  // The next gathers wait for all that has been computed.
  void wait_for_computation() { gather_after_ = build_.last_compute(); }
  // Brings the whole of a group into a buffer, and its experts, who have replicas of their own,
  // into another one behind it.
  void gather(ShardedGroup& group);
  // The next compute operation finds the group's weights.
  void use(ShardedGroup& group, Pass pass);
  // `keeps`: the part that the backward starts from stays.
  void give_back(ShardedGroup& group, bool keeps);

 private:
  void gather_part(std::string_view name, ShardedPart& part, const ShardSlots& slots);
  [[nodiscard]] std::int64_t take(ShardedPart& part);

  const ReplicaOptions& options_;
  const ShardGroups& slots_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  OpIndex copied_out_ = kNone;    // the latest copy out of a gathered buffer
  OpIndex gather_after_ = kNone;  // what the next gather waits for
};

// Adds gradients up and reduces them to shards.
class ShardReductions {
 public:
  ShardReductions(const ReplicaOptions& options, const ShardGroups& slots, const StepShape& shape,
                  ProgramBuilder& build)
      : options_(options), slots_(slots), shape_(shape), build_(build) {}

  // Adds this microbatch's gradients to those kept, which are as wide as what is reduced.
  void accumulate(ShardedGroup& group);
  void reduce(ShardedGroup& group);
  // The latest of each stream.
  [[nodiscard]] std::array<OpIndex, 2> latest() const { return {reduce_scatter_, all_reduce_}; }

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
  void before_forward(const UnitPlace& place) override;
  void after_forward(const UnitPlace& place) override;
  void before_recompute(const UnitPlace& place) override;
  void after_recompute(const UnitPlace& place) override;
  void before_backward(const UnitBackward& backward) override;
  void after_backward(const UnitBackward& backward,
                      const std::vector<ReadyGradient>& ready) override;
  void end_step() override;

 private:
  using Group = ShardedGroup;
  [[nodiscard]] Group& group_at(const UnitPlace& place);
  [[nodiscard]] bool gives_back(const Group& group) const;
  [[nodiscard]] bool keeps_between_microbatches() const;
  void gather_ahead(const UnitPlace& place);
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

constexpr std::int64_t kMasterBytes = 4;  // the weights themselves are kept in fp32

// Counts what one gather brings or one reduce_scatter takes: the first dimension is cut into equal
// parts, the last of which may be short or empty.
std::int64_t padded(const Tensor& tensor, std::int64_t shards) {
  return (tensor.rows + shards - 1) / shards * shards * tensor.columns;
}

std::int64_t padded(const std::vector<Tensor>& tensors, std::int64_t shards) {
  std::int64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += padded(tensor, shards);
  return sum;
}

// The first unit of a chunk that a gradient comes back to: the end of its backward.
std::size_t first_reached(const ChunkWeights& weights) {
  const auto first = std::ranges::find_if(weights.units, &WeightUnit::reached);
  return static_cast<std::size_t>(first - weights.units.begin());
}

// A unit's share of its group.
struct UnitParts {
  ShardedPart dense;
  ShardedPart experts;
};

UnitParts unit_parts(const ReplicaOptions& options, const ShardGroups& groups,
                     const StepShape& shape, const ChunkWeights& weights, const WeightUnit& unit) {
  const auto frozen = [&](const std::vector<Tensor>& tensors, std::int64_t otherwise,
                          std::int64_t shards) {
    double bytes = 0.0;
    for (const Tensor& tensor : tensors)
      bytes +=
          frozen_element_bytes(options.adapters, unit, tensor, static_cast<double>(otherwise)) *
          static_cast<double>(padded(tensor, shards));
    return std::llround(bytes);
  };
  const std::int64_t kept = options.adapters.any() ? shape.element : kMasterBytes;
  const auto part = [&](std::span<const GradientEntry> entries, const std::vector<Tensor>& still,
                        std::int64_t shards) {
    ShardedPart one;
    for (const GradientEntry& entry : entries) one.trained += padded(entry.tensors, shards);
    if (shards == 1) return one;
    one.wire = one.trained * shape.element + frozen(still, shape.element, shards);
    one.shard = (one.trained * kMasterBytes + frozen(still, kept, shards)) / shards;
    return one;
  };
  UnitParts parts;
  parts.dense = part(std::span(weights.entries).subspan(unit.begin, unit.end - unit.begin),
                     unit.frozen, groups.dense.shards);
  if (groups.experts.all == 1) return parts;  // held whole and reduced with nobody
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

// The root first: it is gathered before anything else. Where it has both ends of the model, its
// backward ends with the chunk's.
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
  // Layers of multi-token prediction stand behind the head and use it once more.
  const bool further = root.is_root() && weights.units.back().layer >= model_layers;
  if (further) root.forward_ends_at = weights.units.size() - 1;
  return groups;
}

// ---- weights

void ShardGathers::gather_part(std::string_view name, ShardedPart& part, const ShardSlots& slots) {
  if (part.kept == part.wire) return;
  const bool fetches = options_.fetches_shards && part.kept == 0;
  const ChosenCall call =
      options_.collectives.call(GroupKind::Data, CollectiveOp::AllGather, part.wire, shape_.dtype);
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

// The bytes that the next compute operation copies out of what has been gathered.
std::int64_t ShardGathers::take(ShardedPart& part) {
  const std::int64_t gathered = part.gather == kNone ? 0 : part.wire;
  build_.wait_for(part.gather);
  part.gather = kNone;
  return gathered;
}

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
  // A forward leaves its buffer to be read while the next one is filled.
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
  build_.wait_for(reduce_scatter_);  // one at a time is under way
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

// From a buffer that is filled by `after`; what copies have shards of they then add up among them.
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
      gathers_(options_, slots_, shape_, build_),
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

FullySharded::Group& FullySharded::group_at(const UnitPlace& place) {
  return groups_[place.chunk][group_of_[place.chunk][place.unit]];
}

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

// In a pipeline the next microbatch's forward comes before this one's backward.
bool FullySharded::keeps_between_microbatches() const {
  return options_.parallelism.pipeline > 1 &&
         options_.parallelism.reshard_after_forward != Reshard::Always;
}

void FullySharded::begin_step() { hold_state(options_.gradients, parameters_, {}, build_); }

void FullySharded::before_forward(const UnitPlace& place) {
  std::vector<Group>& groups = groups_[place.chunk];
  if (place.unit == 0) {
    gathers_.wait_for_computation();  // not before the optimizer, nor a microbatch ahead
    gathers_.use(groups.front(), Pass::Forward);
  }
  const std::size_t number = group_of_[place.chunk][place.unit];
  gathers_.use(groups[number], Pass::Forward);
  const auto ahead = static_cast<std::size_t>(options_.parallelism.forward_prefetch);
  for (std::size_t next = number + 1; next < groups.size() && next <= number + ahead; ++next)
    gathers_.gather(groups[next]);
}

void FullySharded::after_forward(const UnitPlace& place) {
  Group& own = group_at(place);
  Group& root = groups_[place.chunk].front();
  for (Group* group : {&own, &root}) {
    if (place.unit == group->forward_ends_at && gives_back(*group))
      gathers_.give_back(*group, group->ends_at.has_value());
    if (&own == &root) break;
  }
}

void FullySharded::before_recompute(const UnitPlace& place) {
  gathers_.use(group_at(place), Pass::Backward);
}

void FullySharded::after_recompute(const UnitPlace& place) {
  Group& group = group_at(place);
  if (gives_back(group)) gathers_.give_back(group, true);
}

// The group that the backward needs next: one ahead.
void FullySharded::gather_ahead(const UnitPlace& place) {
  if (!options_.parallelism.backward_prefetch || place.unit == 0) return;
  const UnitPlace before{.chunk = place.chunk, .unit = place.unit - 1};
  if (weights_[before.chunk].units[before.unit].reached) gathers_.gather(group_at(before));
}

void FullySharded::before_backward(const UnitBackward& backward) {
  Group& group = group_at(backward.place);
  if (backward.part != BackwardPart::Weight) {
    // Nothing is asked for ahead of the backward, nor without prefetch ahead of a unit's own.
    const bool enters = backward.place.unit + 1 == weights_[backward.place.chunk].units.size();
    if (enters || !options_.parallelism.backward_prefetch) gathers_.wait_for_computation();
    Group& root = groups_[backward.place.chunk].front();
    const bool further = root.forward_ends_at > root.last_unit;
    if (further && backward.place.unit > root.last_unit) gathers_.use(root, Pass::Backward);
    gathers_.use(group, Pass::Backward);
    gather_ahead(backward.place);
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

void FullySharded::after_backward(const UnitBackward& backward,
                                  const std::vector<ReadyGradient>& /*ready*/) {
  const UnitPlace& place = backward.place;
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

// A group that no backward came by, or only the first part of a split one, has stayed whole.
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
