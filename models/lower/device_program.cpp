// Writes the program of one device of a replica whose model is split by hand, operator by operator
// (operator_devices.hpp). Each microbatch runs forward and then backward through the segments of
// the device, with sends to and receives from the other devices in between. One microbatch is in
// the model at a time.
//
// Every device walks through all segments of the model in the same order and writes the transfers
// before each of them, so that sends and receives between two devices have the same order on both.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <vector>

#include "models/expert_routing.hpp"
#include "models/layers/layer.hpp"
#include "models/layers/layer_memory.hpp"
#include "models/lower/data_parallel/data_parallel.hpp"
#include "models/lower/embedding_and_head.hpp"
#include "models/lower/lower.hpp"
#include "models/lower/messages.hpp"
#include "models/lower/options.hpp"
#include "models/lower/resident_memory.hpp"
#include "models/operator_devices.hpp"
#include "models/pipeline_shape.hpp"
#include "models/rank_groups.hpp"

namespace trainyard {

namespace {

StepShape shape_with(const StepShape& anywhere, const ExpertRouting* routing) {
  StepShape shape = anywhere;
  shape.routing = routing;
  return shape;
}

std::vector<Segment> segments_on(const OperatorSplit& split, std::int64_t device) {
  std::vector<Segment> own;
  for (const Segment& segment : split.segments)
    if (segment.device == device) own.push_back(segment);
  return own;
}

// The weights of one device. The device number is used as pipeline rank and as stage.
std::vector<ChunkWeights> weights_on(const WeightOptions& options, const OperatorSplit& split,
                                     std::int64_t device) {
  ChunkWeights weights = segment_weights(options, segments_on(split, device));
  weights.rank = weights.stage = device;
  return {std::move(weights)};
}

bool is_head(const Segment& segment) { return segment.first >= Operator::FinalNorm; }

HeadParts head_parts(const Segment& segment) {
  return {.norm = segment.holds(Operator::FinalNorm),
          .matrix = segment.holds(Operator::Head),
          .loss = segment.holds(Operator::Loss)};
}

struct DevicePlace {
  std::int64_t device = 0;
  const ExpertRouting* routing = nullptr;  // null for a model without experts
};

// Writes the sends and receives of one device.
class DeviceMessages {
 public:
  // All arguments outlive the object.
  DeviceMessages(const LoweringOptions& options, const OperatorSplit& split, std::int64_t device,
                 const StepShape& shape, ProgramBuilder& build)
      : options_(options),
        split_(split),
        device_(device),
        shape_(shape),
        build_(build),
        peers_(options.messages, shape, build),
        forward_end_(split.segments.size(), kNone),
        backward_end_(split.segments.size(), kNone) {}

  // Write the messages before the forward of a segment, or before its backward.
  void before_forward(std::size_t segment);
  void before_backward(std::size_t segment);
  // Called after the forward, or the backward, of a segment has been written.
  void forward_ended(std::size_t segment) { forward_end_[segment] = build_.last_compute(); }
  void backward_ended(std::size_t segment) { backward_end_[segment] = build_.last_compute(); }

 private:
  void send(const Transfer& transfer, Pass pass, OpIndex after);
  void receive(const Transfer& transfer, Pass pass);
  [[nodiscard]] std::int64_t bytes_of(const Transfer& transfer) const;

  const LoweringOptions& options_;
  const OperatorSplit& split_;
  const std::int64_t device_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  PeerMessages peers_;
  std::vector<OpIndex> forward_end_;  // last operation by segment; kNone: not written yet
  std::vector<OpIndex> backward_end_;
};

void DeviceMessages::before_forward(std::size_t segment) {
  for (const Transfer& transfer : split_.transfers) {
    if (transfer.before != segment) continue;
    if (transfer.from == device_)
      send(transfer, Pass::Forward, forward_end_[transfer.output.segment]);
    if (transfer.to == device_) receive(transfer, Pass::Forward);
  }
}

// The gradient of an output is sent back by each device that has a copy of it, in the reverse order
// of the forward transfers.
void DeviceMessages::before_backward(std::size_t segment) {
  for (const Transfer& transfer : std::views::reverse(split_.transfers)) {
    if (transfer.output.segment != segment) continue;
    if (transfer.to == device_) send(transfer, Pass::Backward, backward_end_[transfer.before]);
    if (transfer.from == device_) receive(transfer, Pass::Backward);
  }
}

std::int64_t DeviceMessages::bytes_of(const Transfer& transfer) const {
  return split_.carries_logits(transfer) ? shape_.tokens * options_.ends.vocab * shape_.element
                                         : shape_.message;
}

// Logits, or their gradient, are freed on the sender when they have been sent.
void DeviceMessages::send(const Transfer& transfer, Pass pass, OpIndex after) {
  const bool forward = pass == Pass::Forward;
  const std::int64_t to = forward ? transfer.to : transfer.from;
  const OpIndex message =
      peers_.send({.pass = pass,
                   .stream = forward ? Stream::SendForward : Stream::SendBackward,
                   .slot = peer_slot(forward ? PeerUse::SendForward : PeerUse::SendBackward, to),
                   .bytes = bytes_of(transfer)},
                  after);
  if (split_.carries_logits(transfer))
    build_.memory().release(message, Category::Logits, bytes_of(transfer));
}

void DeviceMessages::receive(const Transfer& transfer, Pass pass) {
  const bool forward = pass == Pass::Forward;
  const std::int64_t from = forward ? transfer.from : transfer.to;
  peers_.receive({.pass = pass,
                  .stream = forward ? Stream::RecvForward : Stream::RecvBackward,
                  .slot = peer_slot(forward ? PeerUse::RecvForward : PeerUse::RecvBackward, from),
                  .bytes = bytes_of(transfer)},
                 // Without overlap, a receive waits for the computation that is written before it.
                 options_.messages.parallelism.overlap_p2p ? kNone : build_.last_compute());
}

class DeviceLowering {
 public:
  // `options` and `split` outlive the lowering.
  DeviceLowering(const LoweringOptions& options, const OperatorSplit& split,
                 const DevicePlace& place, Interner& interner);

  [[nodiscard]] Program lower();

 private:
  [[nodiscard]] bool is_local(std::size_t segment) const;
  void hold_memory();
  void forward(std::int32_t microbatch);
  void backward(std::int32_t microbatch);
  void forward_segment(std::size_t segment, const UnitIndex& place);
  void backward_segment(std::size_t segment, const UnitBackward& step);
  std::vector<ReadyGradient> segment_gradients(const Segment& segment);
  void sum_gradients(std::size_t segment);
  [[nodiscard]] LayerMemory memory_of(const Segment& segment) const;
  // Bytes of the residual stream that a segment holds in addition, where no norm of the segment
  // keeps it.
  [[nodiscard]] std::int64_t residual_stream_bytes(const Segment& segment) const;

  const LoweringOptions& options_;
  const OperatorSplit& split_;
  const std::int64_t device_;
  const StepShape shape_;
  ProgramBuilder build_;
  LayerLowering layer_;
  EmbeddingAndHead ends_;
  DeviceMessages device_messages_;
  const std::vector<ChunkWeights> weights_;  // one chunk
  const StageParameters parameters_;
  std::unique_ptr<DataParallel> replicas_;
  UnitGradients gradients_;
};

DeviceLowering::DeviceLowering(const LoweringOptions& options, const OperatorSplit& split,
                               const DevicePlace& place, Interner& interner)
    : options_(options),
      split_(split),
      device_(place.device),
      shape_(shape_with(options.shape, place.routing)),
      build_(interner, fmt::format("device {}", place.device),
             static_cast<std::uint32_t>(place.device)),
      layer_(options.layer, shape_, build_),
      ends_(options.ends, options.layer, shape_, build_),
      device_messages_(options, split, device_, shape_, build_),
      weights_(weights_on(options.weights, split, device_)),
      parameters_({.total = weights_.front().parameters(),
                   .experts = weights_.front().expert_parameters()}),
      replicas_(make_data_parallel({options.replicas, shape_, build_, weights_, parameters_})),
      gradients_(GradientLowering(options.replicas.gradients, shape_, build_), weights_,
                 *replicas_) {}

bool DeviceLowering::is_local(std::size_t segment) const {
  return split_.segments[segment].device == device_;
}

void DeviceLowering::hold_memory() {
  std::vector<PlacedParts> parts;
  for (const Segment& segment : segments_on(split_, device_))
    if (segment.layer >= 0)
      parts.push_back(
          {layer_kind(options_.layer.architecture, segment.layer), layer_parts(segment)});
  hold_framework(options_, parts, build_);
}

Program DeviceLowering::lower() {
  hold_memory();
  replicas_->begin_step();
  for (std::int32_t microbatch = 0; microbatch < options_.replicas.microbatches; ++microbatch) {
    forward(microbatch);
    backward(microbatch);
  }
  replicas_->end_step();
  return build_.take();
}

void DeviceLowering::forward(std::int32_t microbatch) {
  Tags tags{.part = StepPart::Forward, .microbatch = microbatch};
  UnitIndex place;
  for (std::size_t segment = 0; segment < split_.segments.size(); ++segment) {
    // Messages between devices belong to no layer.
    tags.layer = -1;
    build_.tag(tags);
    device_messages_.before_forward(segment);
    if (!is_local(segment)) continue;
    tags.layer = split_.segments[segment].layer;
    build_.tag(tags);
    forward_segment(segment, place);
    ++place.unit;
  }
}

void DeviceLowering::backward(std::int32_t microbatch) {
  Tags tags{.part = StepPart::Backward, .microbatch = microbatch};
  UnitBackward step{.place = {.chunk = 0, .unit = weights_.front().units.size()},
                    .first = microbatch == 0,
                    .last = microbatch + 1 == options_.replicas.microbatches};
  gradients_.begin_backward();
  for (std::size_t segment = split_.segments.size(); segment-- > 0;) {
    tags.layer = -1;
    build_.tag(tags);
    device_messages_.before_backward(segment);
    if (!is_local(segment)) continue;
    tags.layer = split_.segments[segment].layer;
    build_.tag(tags);
    --step.place.unit;
    backward_segment(segment, step);
  }
  gradients_.end_backward(0);
}

void DeviceLowering::forward_segment(std::size_t number, const UnitIndex& place) {
  const Segment& segment = split_.segments[number];
  replicas_->before_forward(place);
  if (segment.layer >= 0) {
    const LayerMemory memory = memory_of(segment);
    layer_.forward({.kept = memory.kept,
                    .workspace = memory.forward_workspace + residual_stream_bytes(segment)},
                   layer_parts(segment));
  } else if (is_head(segment)) {
    ends_.head.forward(head_parts(segment));
  } else {
    ends_.embedding.forward();
  }
  replicas_->after_forward(place);
  device_messages_.forward_ended(number);
}

void DeviceLowering::backward_segment(std::size_t number, const UnitBackward& step) {
  replicas_->before_backward(step);
  sum_gradients(number);
  gradients_.add(segment_gradients(split_.segments[number]));
  gradients_.end_unit(step);
  device_messages_.backward_ended(number);
}

LayerMemory DeviceLowering::memory_of(const Segment& segment) const {
  const LayerKind kind = layer_kind(options_.layer.architecture, segment.layer);
  std::optional<std::int64_t> rows;
  if (routes_tokens(kind)) rows = shape_.routing->of({}).total();
  return layer_memory(options_.memory, kind, rows, true, layer_parts(segment));
}

std::int64_t DeviceLowering::residual_stream_bytes(const Segment& segment) const {
  const bool normed_elsewhere =
      segment.first == Operator::Attention || segment.first == Operator::FeedForward;
  return normed_elsewhere ? shape_.message : 0;
}

std::vector<ReadyGradient> DeviceLowering::segment_gradients(const Segment& segment) {
  if (segment.layer < 0)
    return is_head(segment) ? ends_.head.backward(BackwardPart::Full, head_parts(segment))
                            : ends_.embedding.backward();
  const LayerMemory memory = memory_of(segment);
  return layer_.backward(
      BackwardPart::Full,
      {.rebuilt = memory.working, .workspace = memory.workspace, .freed = memory.everything()},
      layer_parts(segment));
}

// Adds the gradients of one tensor that come from several devices. Each sum reads two tensors and
// writes one.
void DeviceLowering::sum_gradients(std::size_t segment) {
  for (std::int64_t sum = split_.gradient_sums[segment]; sum > 0; --sum)
    Elementwise(options_.layer.architecture, options_.layer.elementwise_kernels, shape_, build_)
        .memory_bound("gradient_sum", MemoryBoundKind::Elementwise, 3 * shape_.message);
}

}  // namespace

Workload operator_step(const TrainingPlan& plan) {
  const OperatorSplit split = operator_split(plan);
  const LoweringOptions options = lowering_options(plan);
  std::optional<ExpertRouting> routing;
  if (plan.architecture.has_experts()) routing.emplace(plan);
  Workload workload;
  workload.streams = stream_names();
  workload.categories = category_names();
  Interner interner(workload);
  for (std::int64_t device = 0; device < plan.parallelism.pipeline; ++device) {
    DeviceLowering lowering(options, split,
                            {.device = device, .routing = routing ? &*routing : nullptr}, interner);
    workload.programs.push_back(lowering.lower());
  }
  drop_unused_names(workload);
  add_groups({.parallelism = plan.parallelism,  // a tied table is on one device
              .architecture = plan.architecture,
              .placement = placement_of(plan.parallelism),
              .context = options.layer.attention.context.shape},
             workload);
  std::vector<PeerPair> pairs;
  pairs.reserve(split.transfers.size());
  for (const Transfer& transfer : split.transfers)
    pairs.push_back({.from = transfer.from, .to = transfer.to});
  add_peer_groups(plan.parallelism, pairs, workload);
  return workload;
}

}  // namespace trainyard
