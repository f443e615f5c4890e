// The kernels of a layer whose time is what they read and write: norms, activation functions,
// residual additions, copies. A framework runs each as one kernel or as several
// (models/streaming_kernels.hpp).
//
//   elementwise.norm_forward("attention_norm");
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/lower/program_builder.hpp"
#include "models/lower/step_shape.hpp"
#include "models/streaming_kernels.hpp"

namespace trainyard {

class Elementwise {
 public:
  Elementwise(const Architecture& architecture, const StreamingKernels& streaming,
              const StepShape& shape, ProgramBuilder& build)
      : arch_(architecture), streaming_(streaming), shape_(shape), build_(build) {}

  OpIndex memory_bound(std::string_view name, MemoryBoundKind kind, std::int64_t bytes,
                       std::int64_t launches = 1);
  OpIndex stream(std::string_view name, MemoryBoundKind kind, const StreamingPass& pass,
                 std::int64_t numbers);
  void norm_forward(std::string_view name);
  OpIndex norm_backward(std::string_view name);
  // Before the block it norms the input of, a norm's input also goes round that: what comes back
  // through both is the gradient of one tensor, which autograd reads twice and writes as a sum.
  struct NormBack {
    BackwardPart part = BackwardPart::Full;
    bool before_block = true;
  };
  // Writes a norm's part of a layer's backward; returns where the gradient of its weights is final.
  ReadyGradient norm_back(std::string_view name, const NormBack& norm);
  // The activation function gives so many numbers.
  void activation_forward(std::string_view name, std::int64_t numbers);
  void activation_backward(std::string_view name, std::int64_t numbers);
  // Behind a block, "attention" or "ffn": its output, normed where the model has post_norms, is
  // added to what went round it; or only normed, where nothing reads the sum.
  void residual_forward(std::string_view block, bool added);
  std::vector<ReadyGradient> residual_backward(std::string_view block, BackwardPart part);
  // Adds the gradients of one input that came back through so many products of their own, such as
  // those of queries, keys and values.
  void join_input_gradients(std::string_view name, std::int64_t products);
  void copy_sequence(std::string_view name, std::int64_t bytes);

 private:
  const Architecture& arch_;
  const StreamingKernels& streaming_;
  const StepShape& shape_;
  ProgramBuilder& build_;
};

}  // namespace trainyard
