// Types and sizes that every part of the lowering uses: streams, memory categories, final
// gradients, parts of a backward, and the tensor sizes of a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/workload/kernel.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

class ExpertRouting;

// Streams of a lowered step, by number. Messages between stages use one stream for each pass and
// for sends and receives separately, so that a receive that is posted early never delays a send.
enum class Stream : std::uint8_t {
  Compute,
  Tensor,
  SendForward,
  RecvForward,
  SendBackward,
  RecvBackward,
  Data,
  Other,
  // A workload contains a stream from here on only if it uses that stream or a later one.
  // Messages of chunks whose activations go from higher ranks to lower ones.
  SendForwardReverse,
  RecvForwardReverse,
  SendBackwardReverse,
  RecvBackwardReverse,
  AllGather,      // of weights, layer by layer
  ReduceScatter,  // of their gradients
  Replica,        // gradients of a shard, reduced over the copies of the shard
  // Context parallelism: collectives, and sends and receives on the ring.
  Context,
  SendContext,
  RecvContext,
  // GEMMs that run in pieces (models/layers/tensor_parallel.cpp).
  SendTensor,
  RecvTensor,
  Expert,  // collectives of a model with experts
  // Copies between the GPU and the memory of its CPU, one stream for each direction, and the work
  // of the CPU.
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
  Fragmentation,  // reserved by the allocator but unused at the peak; known after the run
  // A workload contains a category from here on only if it uses that category or a later one.
  UnshardedWeights,  // gathered or fetched for a layer, until they are freed
  Host,              // bytes in the memory of the CPU (kHostCategory)
};

[[nodiscard]] std::vector<std::string> category_names();
[[nodiscard]] std::vector<std::string> stream_names();
// Removes the names of streams and categories after the last one in use, so that reports have no
// empty streams and categories.
void drop_unused_names(Workload& workload);

// A weight gradient that is final when an operation ends. Its parameters are those of the
// GradientEntry with the same index (chunk_weights.hpp).
struct ReadyGradient {
  OpIndex op = kNone;
  bool expert = false;  // the gradient is reduced over the replicas of the experts
};

// The position of a program's ranks in the expert grid. Both fields are 0 under balanced routing,
// where all ranks have the same load.
struct ExpertRank {
  std::int64_t place = 0;    // expert-parallel rank
  std::int64_t replica = 0;  // of the experts
};

enum class Pass : std::uint8_t { Forward, Backward };

// The kernels of a backward that a step runs: all, those of the input gradient, or the GEMMs of the
// weight gradient, which a zero-bubble schedule runs later. The input part keeps the operands of
// the weight part (LayerMemory::for_weights). A sequence-parallel rank keeps only its own rows of
// them and gathers the others once more.
enum class BackwardPart : std::uint8_t { Full, Input, Weight };

// Sizes that every part of the lowering needs, computed once.
struct StepShape {
  // The collective that adds the partial sums of the tensor ranks. With sequence parallelism each
  // rank receives only its own rows of the result.
  [[nodiscard]] CollectiveOp join_op() const {
    return sequence_parallel ? CollectiveOp::ReduceScatter : CollectiveOp::AllReduce;
  }

  std::int64_t tokens = 0;  // of one microbatch on one context rank, b*s/c
  std::int64_t ring_position =
      0;  // position on the ring of the context group (attention_pairs.hpp)
  // Tokens of a rank outside tensor-parallel regions: tokens/t with sequence parallelism.
  std::int64_t local_tokens = 0;
  std::int64_t tensor = 1;
  bool sequence_parallel = false;
  std::int64_t element = 2;   // bytes of an activation
  std::int64_t gradient = 4;  // bytes of an accumulated gradient
  DataType dtype = DataType::Bf16;
  std::int64_t message = 0;                // bytes of a tensor collective: tokens*hidden*element
  const ExpertRouting* routing = nullptr;  // null for a model without experts
  ExpertRank expert_rank = {};
  std::int64_t replica = 0;  // data-parallel rank, where replicas read different documents
};

}  // namespace trainyard
