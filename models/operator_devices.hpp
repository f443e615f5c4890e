// A model that the user splits by hand, operator by operator, over the devices of one replica.
//
// Rules such as {"attention_block 0-15", 0} assign operators to devices (Parallelism, the
// scenario's parallelism.operator_devices). This module converts them into segments, which are
// consecutive operators of one layer on one device, and the transfers between segments. The
// residual stream is transferred too: an attention or a feed-forward part adds its output to the
// stream on its own device, so it needs the stream in addition to the output of its norm. One
// microbatch is in the model at a time. An example with the rules {"embedding", 0},
// {"attention_block", 0}, {"mlp_block", 1} and {"head_block", 0}:
//
//    const OperatorSplit split = operator_split(plan);
//    split.segments[2];    // device 1, layer 0: FeedForwardNorm and FeedForward
//    split.transfers[0];   // the stream that segment 1 writes, device 0 to 1, before segment 2
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "models/plan.hpp"

namespace trainyard {

// The operators in the order of the forward pass.
enum class Operator : std::uint8_t {
  Embedding,
  AttentionNorm,
  Attention,  // with the residual addition after it
  FeedForwardNorm,
  FeedForward,  // a dense layer's, or router and experts; with the residual addition
  FinalNorm,
  Head,
  Loss
};

// Consecutive operators on one device: of one layer, or before or after all layers.
struct Segment {
  std::int64_t device = 0;
  std::int32_t layer = -1;  // -1: before or after the layers
  Operator first = Operator::Embedding;
  Operator last = Operator::Embedding;
  [[nodiscard]] bool holds(Operator one) const { return first <= one && one <= last; }
  bool operator==(const Segment&) const = default;
};

// An output of a segment: the residual stream (`stream`), or the other output of its last operator:
// the activations of a norm, the logits of the LM head.
struct SegmentOutput {
  std::size_t segment = 0;
  bool stream = true;
  auto operator<=>(const SegmentOutput&) const = default;
};

// An output that another device needs. It is copied to that device once, before the first segment
// that reads it. Its gradient is sent back once, after the backward of that segment, which is the
// last to add to it.
struct Transfer {
  SegmentOutput output;
  std::int64_t from = 0;  // source and destination device
  std::int64_t to = 0;
  std::size_t before = 0;  // the segment before which the copy is made
};

struct OperatorSplit {
  std::vector<Segment> segments = {};    // in the order of the forward pass
  std::vector<Transfer> transfers = {};  // by `before`
  // By segment: the number of devices that compute gradients of its outputs, minus one per output.
  // This is the number of additions before its backward.
  std::vector<std::int64_t> gradient_sums = {};
  // True if a transfer carries logits, which are wider than the hidden size.
  [[nodiscard]] bool carries_logits(const Transfer& transfer) const {
    return segments[transfer.output.segment].last == Operator::Head && !transfer.output.stream;
  }
};

// The outputs that the segment reads, in the order in which they become available.
[[nodiscard]] std::vector<SegmentOutput> inputs_of(const std::vector<Segment>& segments,
                                                   std::size_t segment);

// Throws InputError at /parallelism/operator_devices for a rule with an unknown name or layer, an
// operator without a rule or with two rules, a device that does not exist or holds nothing, and a
// tied embedding on another device than the LM head. REQUIRES: the plan has rules.
[[nodiscard]] OperatorSplit operator_split(const TrainingPlan& plan);

// The words of rules: operators, and groups of them ("layer", "attention_block", ...).
[[nodiscard]] std::vector<std::string> operator_words();

}  // namespace trainyard
