// The words and sizes that every part of the lowering uses: streams and memory categories by
// number, gradients, parts of a backward, and the sizes of a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/workload/kernel.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

class ExpertRouting;

// Streams of a lowered step, by number. Messages between stages have one stream for each direction
// and side, so that a receive posted early never holds up a send.
enum class Stream : std::uint8_t {
  Compute,
  Tensor,
  SendForward,
  RecvForward,
  SendBackward,
  RecvBackward,
  Data,
  Other,
  // From here on a stream is in a workload only where the workload uses it, or one behind it.
  // Messages of chunks that run from the last rank to the first.
  SendForwardReverse,
  RecvForwardReverse,
  SendBackwardReverse,
  RecvBackwardReverse,
  AllGather,      // of weights, layer by layer
  ReduceScatter,  // of their gradients
  Replica,        // gradients of a shard, among its copies
  // Ranks that share a sequence: collectives, and what goes round the ring.
  Context,
  SendContext,
  RecvContext,
  // Products in pieces (tensor_parallel.cpp).
  SendTensor,
  RecvTensor,
  Expert,  // of a model with experts
  // Between the GPU and the memory of its CPU, one each way, and the CPU's own work.
  StoreHost,
  FetchHost,
  HostWork,
};

// Memory categories of a lowered step, by number.
enum class Category : std::uint8_t {
  Weights,
  Gradients,
  OptimizerState,
  Activations,
  Logits,
  Communication,
  Framework,
  Workspace,      // gradients of activations while a layer's backward runs
  Fragmentation,  // reserved by the allocator, in no use at the peak; known after the run
  // From here on a category is in a workload only where the workload uses it, or one behind it.
  UnshardedWeights,  // gathered or fetched for a layer, until it gives them back
  Host,              // what stands in the memory of the CPU (kHostCategory)
};

[[nodiscard]] std::vector<std::string> category_names();
[[nodiscard]] std::vector<std::string> stream_names();
// Drops the names of streams and categories behind the last one in use, so that a step shows no
// room for what it does not do.
void drop_unused_names(Workload& workload);

// A weight gradient that has become final at the end of that operation; how many parameters it is
// of stands in chunk_weights.hpp.
struct ReadyGradient {
  OpIndex op = kNone;
  bool expert = false;  // reduced over the replicas of the experts
};

// Where a program stands among the experts; all alike under balanced routing.
struct ExpertRank {
  std::int64_t place = 0;
  std::int64_t replica = 0;
};

enum class Pass : std::uint8_t { Forward, Backward };

// Which kernels of a backward: all, those of the input gradient, or the products of the weight
// gradient that a zero-bubble schedule runs later. What the first gathered the second finds kept.
enum class BackwardPart : std::uint8_t { Full, Input, Weight };

// Sizes every part of the lowering needs, worked out once.
struct StepShape {
  // The collective that joins partial sums of the tensor ranks; with sequence parallelism each
  // keeps its own rows of the result.
  [[nodiscard]] CollectiveOp join_op() const {
    return sequence_parallel ? CollectiveOp::ReduceScatter : CollectiveOp::AllReduce;
  }

  std::int64_t tokens = 0;      // of one microbatch on one context rank, b*s/c
  std::int64_t ring_place = 0;  // on the ring of the context group (attention_pairs.hpp)
  std::int64_t local_tokens =
      0;  // outside tensor-parallel regions: tokens/t with sequence parallelism
  std::int64_t tensor = 1;
  bool sequence_parallel = false;
  std::int64_t element = 2;   // bytes of an activation
  std::int64_t gradient = 4;  // bytes of an accumulated gradient
  DataType dtype = DataType::Bf16;
  std::int64_t message = 0;   // tokens*hidden*element: what a tensor collective carries
  std::int64_t boundary = 0;  // what a stage sends to the next, per rank
  const ExpertRouting* routing = nullptr;  // of a model with experts
  ExpertRank expert_rank = {};
  std::int64_t replica = 0;  // among the data-parallel ranks, where they read other documents
};

}  // namespace trainyard
