// A model split by hand, operator by operator, over the devices of one replica.
//
// Rules such as {"attention_block 0-15", 0} say where operators stand (Parallelism, the scenario's
// parallelism.operator_devices). Here they become segments, the operators of a layer that follow
// each other on one device, and what travels between them. The residual stream goes along: an
// attention or a feed-forward part adds its output to it where it stands, so that it needs the
// stream beside what its norm made of it. One microbatch is in the model at a time.
//
//   const OperatorSplit split = operator_split(plan);
//   split.segments[3];    // {.device = 1, .layer = 0, .first = Operator::FeedForwardNorm, ...}
//   split.transfers[0];   // the stream that segment 0 leaves, from device 0 to 1, before segment 1
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "models/plan.hpp"

namespace trainyard {

// In the order of the forward pass.
enum class Operator : std::uint8_t {
  Embedding,
  AttentionNorm,
  Attention,  // with the residual addition behind it
  FeedForwardNorm,
  FeedForward,  // a dense layer's, or router and experts; with the residual addition
  FinalNorm,
  Head,
  Loss
};

// Operators that follow each other on one device: of one layer, or of one end of the model.
struct Segment {
  std::int64_t device = 0;
  std::int32_t layer = -1;  // -1: before or behind the layers
  Operator first = Operator::Embedding;
  Operator last = Operator::Embedding;
  [[nodiscard]] bool holds(Operator one) const { return first <= one && one <= last; }
  bool operator==(const Segment&) const = default;
};

// A segment leaves the residual stream for others, or what its last operator hands on beside it: a
// norm its rows, the head its logits.
struct SegmentOutput {
  std::size_t segment = 0;
  bool stream = true;
  auto operator<=>(const SegmentOutput&) const = default;
};

// An output that another device needs. It is copied there once, before the first segment that reads
// it; its gradient comes back once, when that segment's backward, the last to add to it, is done.
struct Transfer {
  SegmentOutput output;
  std::int64_t from = 0;  // devices
  std::int64_t to = 0;
  std::size_t before = 0;  // segment
};

struct OperatorSplit {
  std::vector<Segment> segments = {};    // in the order of the forward pass
  std::vector<Transfer> transfers = {};  // by `before`
  // By segment: devices that make gradients of one of its outputs, less one for each output. So
  // many sums are taken before its backward.
  std::vector<std::int64_t> gradient_sums = {};
  // Whether a transfer carries logits, which are wider than the model.
  [[nodiscard]] bool carries_logits(const Transfer& transfer) const {
    return segments[transfer.output.segment].last == Operator::Head && !transfer.output.stream;
  }
};

// The outputs that the segment reads, in the order they become available.
[[nodiscard]] std::vector<SegmentOutput> inputs_of(const std::vector<Segment>& segments,
                                                   std::size_t segment);

// Throws InputError at /parallelism/operator_devices for a rule that names what is not there, an
// operator that no rule or two rules place, a device that is none or holds nothing, and a tied
// embedding away from its head. REQUIRES: rules.
[[nodiscard]] OperatorSplit operator_split(const TrainingPlan& plan);

// The words of rules: operators, and groups of them ("layer", "attention_block", ...).
[[nodiscard]] std::vector<std::string> operator_words();

}  // namespace trainyard
