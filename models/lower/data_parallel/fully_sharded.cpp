#include "models/lower/data_parallel/fully_sharded.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "models/lower/offload.hpp"

namespace trainyard {

namespace {

constexpr std::int64_t kMasterBytes = 4;  // the weights themselves are kept in fp32

// Of what one gather brings or one reduce_scatter takes: the first dimension is cut into equal
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

}  // namespace

FullySharded::FullySharded(const DataParallelParts& parts)
    : options_(parts.options),
      shape_(parts.shape),
      build_(parts.build),
      weights_(parts.chunks),
      parameters_(parts.parameters),
      gradients_(parts.options.gradients, parts.shape, parts.build),
      slots_(shard_slots(parts.options.parallelism, Slot::Data)),
      expert_slots_(expert_shard_slots(parts.options.parallelism, Slot::ExpertData)) {
  for (const ChunkWeights& weights : weights_) groups_.push_back(groups_of(weights));
  for (std::size_t chunk = 0; chunk < groups_.size(); ++chunk) {
    group_of_.emplace_back(weights_[chunk].units.size());
    for (std::size_t group = 0; group < groups_[chunk].size(); ++group) {
      group_of_[chunk][groups_[chunk][group].first_unit] = group;
      group_of_[chunk][groups_[chunk][group].last_unit] = group;
    }
  }
}

// The root first: it is gathered before anything else. Where it has both ends of the model, its
// backward ends with the chunk's.
std::vector<FullySharded::Group> FullySharded::groups_of(const ChunkWeights& weights) const {
  std::vector<Group> groups;
  for (std::size_t unit = 0; unit < weights.units.size(); ++unit)
    append_unit(groups, weights, unit);
  if (groups.empty()) return groups;
  Group& root = groups.front();
  if (root.is_root() && root.first_unit != root.last_unit) root.ends_at = first_reached(weights);
  // Layers of multi-token prediction stand behind the head and use it once more.
  const bool further = root.is_root() && weights.units.back().layer >= options_.model_layers;
  if (further) root.forward_ends_at = weights.units.size() - 1;
  return groups;
}

void FullySharded::append_unit(std::vector<Group>& groups, const ChunkWeights& weights,
                               std::size_t number) const {
  const WeightUnit& unit = weights.units[number];
  const bool joins_root = !unit.is_layer() && !groups.empty() && groups.front().is_root();
  if (!joins_root) {
    const auto where = unit.is_layer() ? groups.end() : groups.begin();
    groups.insert(where, Group{.layer = unit.layer, .first_unit = number});
  }
  Group& group = unit.is_layer() ? groups.back() : groups.front();
  group.last_unit = group.forward_ends_at = number;
  if (unit.reached && !group.ends_at) group.ends_at = number;
  const std::vector<GradientEntry>& entries = weights.entries;
  std::int64_t trained = 0;
  for (std::size_t entry = unit.begin; entry < unit.end; ++entry)
    trained += padded(entries[entry].tensors, slots_.shards);
  const auto frozen = [&](const std::vector<Tensor>& tensors, std::int64_t otherwise,
                          std::int64_t shards) {
    double bytes = 0.0;
    for (const Tensor& tensor : tensors)
      bytes +=
          frozen_element_bytes(options_.adapters, unit, tensor, static_cast<double>(otherwise)) *
          static_cast<double>(padded(tensor, shards));
    return std::llround(bytes);
  };
  const std::int64_t kept = options_.adapters.any() ? shape_.element : kMasterBytes;
  group.dense.trained += trained;
  if (slots_.shards > 1) {
    group.dense.wire +=
        trained * shape_.element + frozen(unit.frozen, shape_.element, slots_.shards);
    group.dense.shard +=
        (trained * kMasterBytes + frozen(unit.frozen, kept, slots_.shards)) / slots_.shards;
  }
  if (expert_slots_.all == 1) return;  // held whole and reduced with nobody
  for (std::size_t entry = unit.experts_begin; entry < unit.experts_end; ++entry)
    group.experts.trained += padded(weights.experts[entry].tensors, expert_slots_.shards);
  const std::int64_t shards = expert_slots_.shards;
  if (shards == 1) return;
  const std::int64_t experts = group.experts.trained;
  group.experts.wire =
      experts * shape_.element + frozen(unit.frozen_experts, shape_.element, shards);
  group.experts.shard =
      (experts * kMasterBytes + frozen(unit.frozen_experts, kept, shards)) / shards;
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

void FullySharded::gather_part(std::string_view name, Part& part, const ShardSlots& slots) {
  if (part.kept == part.wire) return;
  const bool fetches = options_.fetches_shards && part.kept == 0;
  const Call call =
      options_.collectives.call(GroupKind::Data, CollectiveOp::AllGather, part.wire, shape_.dtype);
  const OpIndex fetched =
      fetches ? copy_from_host(build_, "weight_shard_fetch", part.shard, {gather_after_}) : kNone;
  part.gather =
      build_.collective(name, Stream::AllGather, part.kept > 0 ? slots.reshard : slots.shard, call,
                        {fetches ? fetched : gather_after_});
  build_.allocate(part.gather, Category::Communication, part.wire);
  if (!fetches) return;
  build_.allocate(fetched, Category::Communication, part.shard);
  build_.release(part.gather, Category::Communication, part.shard);
}

// Brings the whole of a group into a buffer, and its experts, who have replicas of their own, into
// another one behind it.
void FullySharded::gather(Group& group) {
  if (group.weights != Weights::Sharded || group.wire() == 0) return;
  const Tags before = build_.tags();
  Tags tags = before;
  tags.part = StepPart::ParamSync;
  tags.layer = group.layer;
  build_.tag(tags);
  gather_part("weight_all_gather", group.dense, slots_);
  gather_part("expert_weight_all_gather", group.experts, expert_slots_);
  build_.tag(before);
  group.weights = Weights::Gathered;
}

// The bytes that the next compute operation copies out of what has been gathered.
std::int64_t FullySharded::take(Part& part) {
  const std::int64_t gathered = part.gather == kNone ? 0 : part.wire;
  build_.wait_for(part.gather);
  part.gather = kNone;
  return gathered;
}

// The next compute operation finds the group's weights.
void FullySharded::use(Group& group, bool backward) {
  gather(group);
  if (group.weights != Weights::Gathered) return;
  group.weights = Weights::Whole;
  const OpIndex before = copied_out_;
  const std::int64_t bytes = take(group.dense) + take(group.experts);
  if (bytes > 0) {
    copied_out_ = build_.compute(
        "weight_copy_out",
        MemoryBound{.kind = MemoryBoundKind::Elementwise, .bytes = 2 * bytes, .launches = 1});
    build_.allocate(copied_out_, Category::UnshardedWeights, bytes);
    build_.release(copied_out_, Category::Communication, bytes);
  }
  for (Part* part : {&group.dense, &group.experts}) {
    if (part->kept < part->wire)
      build_.release(copied_out_, Category::UnshardedWeights, part->kept);
    part->kept = 0;
  }
  // A forward leaves its buffer to be read while the next one is filled.
  const OpIndex free_after = backward ? copied_out_ : before;
  if (free_after == kNone) return;
  gather_after_ = gather_after_ == kNone ? free_after : std::max(gather_after_, free_after);
}

void FullySharded::give_back(Group& group, bool keeps) {
  if (group.weights != Weights::Whole) return;
  const auto kept = [keeps](const Part& part, const ShardSlots& slots) {
    return keeps && slots.kept_by > 0 ? part.wire / slots.kept_by : 0;
  };
  group.dense.kept = kept(group.dense, slots_);
  group.experts.kept = kept(group.experts, expert_slots_);
  build_.release(build_.last_compute(), Category::UnshardedWeights,
                 group.wire() - group.dense.kept - group.experts.kept);
  group.weights = Weights::Sharded;
}

void FullySharded::before_forward(const UnitPlace& place) {
  std::vector<Group>& groups = groups_[place.chunk];
  if (place.unit == 0) {
    gather_after_ = build_.last_compute();  // not before the optimizer, nor a microbatch ahead
    use(groups.front(), false);
  }
  const std::size_t number = group_of_[place.chunk][place.unit];
  use(groups[number], false);
  const auto ahead = static_cast<std::size_t>(options_.parallelism.forward_prefetch);
  for (std::size_t next = number + 1; next < groups.size() && next <= number + ahead; ++next)
    gather(groups[next]);
}

void FullySharded::after_forward(const UnitPlace& place) {
  Group& own = group_at(place);
  Group& root = groups_[place.chunk].front();
  for (Group* group : {&own, &root}) {
    if (place.unit == group->forward_ends_at && gives_back(*group))
      give_back(*group, group->ends_at.has_value());
    if (&own == &root) break;
  }
}

void FullySharded::before_again(const UnitPlace& place) { use(group_at(place), true); }

void FullySharded::after_again(const UnitPlace& place) {
  Group& group = group_at(place);
  if (gives_back(group)) give_back(group, true);
}

// The group that the backward needs next: one ahead.
void FullySharded::gather_ahead(const UnitPlace& place) {
  if (!options_.parallelism.backward_prefetch || place.unit == 0) return;
  const UnitPlace before{.chunk = place.chunk, .unit = place.unit - 1};
  if (weights_[before.chunk].units[before.unit].reached) gather(group_at(before));
}

void FullySharded::before_backward(const UnitBackward& backward) {
  Group& group = group_at(backward.place);
  if (backward.part != BackwardPart::Weight) {
    // Nothing is asked for ahead of the backward, nor without prefetch ahead of a unit's own.
    const bool enters = backward.place.unit + 1 == weights_[backward.place.chunk].units.size();
    if (enters || !options_.parallelism.backward_prefetch) gather_after_ = build_.last_compute();
    Group& root = groups_[backward.place.chunk].front();
    const bool further = root.forward_ends_at > root.last_unit;
    if (further && backward.place.unit > root.last_unit) use(root, true);
    use(group, true);
    gather_ahead(backward.place);
  }
  if (backward.part == BackwardPart::Input) return;
  const ChunkWeights& weights = weights_[backward.place.chunk];
  const WeightUnit& unit = weights.units[backward.place.unit];
  std::int64_t parameters = weights.parameters(unit);
  if (expert_slots_.all > 1) parameters += weights.expert_parameters(unit);
  const std::int64_t bytes = parameters * shape_.element;
  build_.allocate(build_.next(), Category::Gradients, bytes);
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
  build_.wait_for(reduce_scatter_);
  build_.wait_for(all_reduce_);
}

void FullySharded::end_backward(Group& group, const UnitBackward& backward) {
  const bool keeps = keeps_between_microbatches();
  if (keeps ? backward.last : backward.part != BackwardPart::Weight || group.is_root())
    give_back(group, false);
  if (backward.part == BackwardPart::Input || group.trained() == 0) return;
  const bool every =
      options_.parallelism.reduce_every_microbatch && options_.parallelism.pipeline == 1;
  if (!every && (!backward.last || group.accumulated > 0)) accumulate(group);
  if (!every && !backward.last) return;
  reduce(group);
}

// Adds this microbatch's gradients to those kept, which are as wide as what is reduced.
void FullySharded::accumulate(Group& group) {
  const std::int64_t wide = group.gradients / shape_.element * shape_.gradient;
  const std::int64_t touches = group.accumulated > 0 ? 2 * wide : wide;
  const OpIndex add =
      build_.compute("gradient_accumulate", MemoryBound{.kind = MemoryBoundKind::GradAccumulate,
                                                        .bytes = group.gradients + touches,
                                                        .launches = 1});
  build_.release(add, Category::Gradients, group.gradients);
  group.gradients = 0;
  if (group.accumulated > 0) return;
  build_.allocate(add, Category::Gradients, wide);
  group.accumulated = wide;
}

void FullySharded::reduce(Group& group) {
  const std::int64_t dense = slots_.all > 1 ? group.dense.trained : 0;
  const std::int64_t reduced = dense + group.experts.trained;
  const std::int64_t source = group.gradients + group.accumulated;
  group.gradients = group.accumulated = 0;
  if (reduced == 0) {
    build_.release(build_.last_compute(), Category::Gradients, source);
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
  build_.release(copy_in, Category::Gradients, source);
  if (dense > 0) reduce_part("gradient_", group.dense, slots_, copy_in);
  if (group.experts.trained > 0)
    reduce_part("expert_gradient_", group.experts, expert_slots_, copy_in);
  build_.tag(before);
}

// From a buffer that is filled by `after`; what copies have shards of they then add up among them.
void FullySharded::reduce_part(std::string_view name, const Part& part, const ShardSlots& slots,
                               OpIndex after) {
  const CollectiveOp op = slots.shards > 1 ? CollectiveOp::ReduceScatter : CollectiveOp::AllReduce;
  const std::int64_t bytes = part.trained * shape_.gradient;
  const DataType wire = options_.gradient_wire;
  build_.allocate(after, Category::Communication, bytes);
  const std::string text(name);
  reduce_scatter_ =
      build_.collective(text + std::string(to_string(op)), Stream::ReduceScatter, slots.shard,
                        options_.collectives.call(GroupKind::Data, op, bytes, wire), {after});
  build_.release(reduce_scatter_, Category::Communication, bytes);
  if (slots.shards == 1 || slots.replicas == 1) return;
  const Call rest = options_.collectives.call(GroupKind::Data, CollectiveOp::AllReduce,
                                              bytes / slots.shards, wire);
  all_reduce_ = build_.collective(text + "all_reduce", Stream::Replica, slots.replica, rest,
                                  {reduce_scatter_});
}

// What no backward came by, or only a split one's first part, has stayed whole.
void FullySharded::end_step() {
  for (std::vector<Group>& groups : groups_)
    for (Group& group : groups) give_back(group, false);
  const OpIndex reductions[] = {reduce_scatter_, all_reduce_};
  gradients_.finish(parameters_, reductions);
}

}  // namespace trainyard
