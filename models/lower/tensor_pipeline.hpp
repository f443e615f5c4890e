// A gather and the product it feeds, or a product and the reduction after it, in t pieces: while
// one piece is computed the next one travels round the ring of the tensor group.
//
// With sequence parallelism every column-parallel product waits for an all_gather of its input and
// every row-parallel one for a reduce_scatter of its output, T*h*w bytes each. Cut into t pieces of
// T/t rows, piece j is multiplied while piece j + 1 arrives (Wang et al., ASPLOS 2023,
// doi 10.1145/3567955.3567959; Megatron-LM's tp_comm_overlap). With g seconds for a piece of the
// product and m for a message of T*h*w/t bytes
//   gather, product:   max(t*g, (t-1)*m + g)
//   product, scatter:  the same, and t-1 sums of a piece, which are memory traffic
// against t*g + (t-1)*m one after the other: t = 8, g = 100 us, m = 50 us: 800 instead of 1150.
// Held by tests/models/lower/tensor_pipeline_test.cpp.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "models/lower/program_builder.hpp"
#include "models/lower/step_shape.hpp"

namespace trainyard {

class TensorPipeline {
 public:
  // `algorithm` is that of the pieces' send_recv. REQUIRES: sequence parallelism over more than one
  // rank.
  TensorPipeline(const StepShape& shape, ProgramBuilder& build, ChosenAlgorithm algorithm)
      : shape_(shape), build_(build), algorithm_(std::move(algorithm)) {}

  // The product over all rows of an input of which every rank holds T/t, all of it `input_bytes`;
  // its last piece.
  OpIndex gather_then(std::string_view name, const Gemm& product, std::int64_t input_bytes);
  // The product whose result is summed over the ranks and of which each keeps T/t rows.
  OpIndex then_scatter(std::string_view name, const Gemm& product);

 private:
  // A piece to the next rank once `after` is done; the piece from the rank before.
  OpIndex pass_on(std::string_view name, std::int64_t bytes, OpIndex after);
  OpIndex piece(std::string_view name, const Gemm& product);

  const StepShape& shape_;
  ProgramBuilder& build_;
  ChosenAlgorithm algorithm_;
};

}  // namespace trainyard
