// Sizes that every part of the lowering needs, and how it names gradients and parts of a backward.
#pragma once

#include <cstdint>

#include "sim/workload/kernel.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

class ExpertRouting;

// A weight gradient that has become final at the end of that operation; how many parameters it is
// of stands in chunk_weights.hpp.
struct ReadyGradient {
  OpIndex op = kNone;
  bool expert = false;  // reduced over the replicas of the experts
};

// Where a program stands among the experts; all alike under balanced routing.
struct ExpertSeat {
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
  std::int64_t ring_place = 0;  // on the ring of the context group (context_shape.hpp)
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
  ExpertSeat seat = {};
  std::int64_t replica = 0;  // among the data-parallel ranks, where they read other documents
};

}  // namespace trainyard
