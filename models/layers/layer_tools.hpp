// The choices of training that all writers of a layer's blocks read, and the tools that they write
// with. The tools are elementwise kernels, products of linear layers, and collectives of the tensor
// group with the products around them.
//
//   tools.elementwise.norm_forward("attention_norm");
//   tools.linear.prepare("ffn_down", hidden * ffn, tokens * ffn);
//   tools.tensor.column_forward("ffn_all_gather", "ffn_up_gemm", linear.product(...));
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/architecture/architecture.hpp"
#include "models/architecture/recipe.hpp"
#include "models/attention_pairs.hpp"
#include "models/framework.hpp"
#include "models/lower/program_builder.hpp"
#include "models/lower/step_shape.hpp"
#include "models/plan.hpp"
#include "models/trained_weights.hpp"

namespace trainyard {

// ---- options: made once for all programs of a step (options.hpp)

// Products of linear layers.
struct GemmOptions {
  const Architecture& architecture;
  const Recipe& recipe;
  bool accumulates = false;  // those of weight gradients add to what there is, in fp32
  AdapterSet adapters = {};
  TrainedWeights trained = {};
};

// Collectives of the tensor group.
struct TensorOptions {
  const Recipe& recipe;
  const CollectiveChoice& collectives;
  std::int64_t hidden = 0;
  bool overlaps = true;    // an input gradient is reduced while its weight gradient is computed
  bool in_pieces = false;  // Parallelism::chunked_tensor
  bool keeps_gathered = false;  // ElementwiseKernels::keeps_gathered
};

// Attention among ranks that share a sequence.
struct ContextOptions {
  const CollectiveChoice& collectives;
  std::int64_t ranks = 1;
  ContextShape shape = {};
  ContextExchange exchange = ContextExchange::Ring;
  ContextSplit split = ContextSplit::Zigzag;
};

struct AttentionOptions {
  AttentionKind kind = AttentionKind::Flash;
  DataType fused_dtype = DataType::Bf16;  // of the products inside a fused core
  DocumentDraw microbatch;
  ContextOptions context;
};

struct ExpertOptions {
  const ExpertSettings& settings;
  const CollectiveChoice& collectives;
  std::int64_t places = 1;  // ranks that the experts are divided over
  std::int64_t tensor = 1;  // ranks that share an expert
  bool gemms_in_8_bits = false;
};

struct LayerOptions {
  const Architecture& architecture;
  const ElementwiseKernels& elementwise_kernels;
  GemmOptions gemms;
  TensorOptions tensor;
  AttentionOptions attention;
  ExpertOptions experts;
  RecomputeModules recomputed = {};  // what a layer's backward runs again: none but under Selective
  // A layer that is computed again as a whole leaves its last product out.
  bool stops_early = false;
};

// ---- kernels whose time is what they read and write: norms, activation functions, residual
// additions, copies. A framework runs each as one kernel or as several (models/framework.hpp).

class Elementwise {
 public:
  Elementwise(const Architecture& architecture, const ElementwiseKernels& elementwise_kernels,
              const StepShape& shape, ProgramBuilder& build)
      : arch_(architecture), kernels_(elementwise_kernels), shape_(shape), build_(build) {}

  OpIndex memory_bound(std::string_view name, MemoryBoundKind kind, std::int64_t bytes,
                       std::int64_t launches = 1);
  OpIndex stream(std::string_view name, MemoryBoundKind kind, const ElementwisePass& pass,
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
  void join_input_gradients(std::string_view name, std::int64_t gemms);
  void copy_sequence(std::string_view name, std::int64_t bytes);

 private:
  const Architecture& arch_;
  const ElementwiseKernels& kernels_;
  const StepShape& shape_;
  ProgramBuilder& build_;
};

// ---- products of linear layers and what stands beside them: low-rank adapters on frozen matrices
// (models/trained_weights.hpp), and the casts that their storage and the recipe's precision need

class LinearLayers {
 public:
  LinearLayers(const GemmOptions& options, const StepShape& shape, ProgramBuilder& build,
               Elementwise& elementwise)
      : options_(options), shape_(shape), build_(build), elementwise_(elementwise) {}

  // m x k by k x n.
  [[nodiscard]] Gemm gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const;
  // Adapters are trained, and no matrix itself.
  [[nodiscard]] bool frozen() const { return options_.adapters.any(); }
  // Writes out so many numbers of a frozen matrix that is kept in four bits.
  void dequantise(std::string_view name, std::int64_t parameters);
  // Writes what a product needs first: a frozen matrix kept in four bits is written out, and where
  // the recipe multiplies in 8 bits the activation or gradient of so many elements is quantised,
  // each rank its own rows where these are gathered in 8 bits.
  enum class Rows : std::uint8_t { OwnedWhole, Gathered };
  void prepare(std::string_view name, std::int64_t parameters, std::int64_t elements,
               Rows rows = Rows::OwnedWhole);
  // Products of the adapters on the matrices that a kernel's name stands for.
  void adapters_forward(std::string_view name);
  void adapters_dgrad(std::string_view name);
  OpIndex adapters_wgrad(std::string_view name);

 private:
  void adapters_back(std::string_view name, bool weights);
  [[nodiscard]] std::vector<Adapter> adapters_here() const;  // on the layer that the tags name

  const GemmOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  Elementwise& elementwise_;
};

// ---- collectives of the tensor-parallel group, and the products whose operand they gather or
// whose result they join
//
// The order and what overlaps are Megatron-LM's: in a column-parallel backward the input is
// gathered again while dgrad runs, and its gradient is reduced while wgrad runs.

// Collectives of the tensor group.
class TensorGroup {
 public:
  TensorGroup(const TensorOptions& options, const StepShape& shape, ProgramBuilder& build,
              Elementwise& elementwise)
      : options_(options), shape_(shape), build_(build), elementwise_(elementwise) {}

  // A collective over `bytes` after the last compute operation; kNone without tensor parallelism.
  // `blocking`: the next compute operation waits for it. In the precision of training unless `wire`
  // says otherwise.
  OpIndex collective(CollectiveOp op, std::int64_t bytes, std::string_view name, bool blocking,
                     std::optional<DataType> wire = {});
  // Joins the partial sums of a row-parallel product, as all_reduce, or reduce_scatter over the
  // sequence.
  void join_partial_sums(std::string_view name);
  void gather_sequence(std::string_view name);  // nothing without sequence parallelism
  // Gathers the rows of an operand of a linear layer's product, in the recipe's sequence_wire if
  // this product is one of the recipe's; kNone without sequence parallelism.
  OpIndex gather_operand(std::string_view name, DataType gemm, bool blocking);
  // Bytes of all rows of an operand as they are gathered for a product of the recipe.
  [[nodiscard]] std::int64_t wire_bytes() const;

 private:
  const TensorOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  Elementwise& elementwise_;
};

// A column-parallel linear layer.
struct ColumnLayer {
  std::string_view name = {};
  std::int64_t outputs = 0;   // columns of a rank
  std::int64_t matrices = 1;  // that multiply the same input, as those of queries, keys and values
  bool is_head = false;       // stays in the precision of training, whatever the recipe says
};

// Products of linear layers that are divided over the tensor group.
class TensorParallel {
 public:
  TensorParallel(const TensorOptions& options, const StepShape& shape, ProgramBuilder& build,
                 Elementwise& elementwise, LinearLayers& linear, TensorGroup& group)
      : options_(options),
        shape_(shape),
        build_(build),
        elementwise_(elementwise),
        linear_(linear),
        group_(group) {}

  // A product of gathered rows, or one whose result is joined; in pieces with `in_pieces`.
  void column_forward(std::string_view gather, std::string_view name, const Gemm& gemm);
  void row_forward(std::string_view join, std::string_view name, const Gemm& gemm);
  // dgrad and wgrad of a linear layer and their communication; the wgrad, or kNone for the input
  // part. A row-parallel layer has `inputs` rows per rank.
  OpIndex column_backward(const ColumnLayer& layer, BackwardPart part);
  OpIndex row_backward(std::string_view name, std::int64_t inputs, BackwardPart part);
  // Operands of weight gradients that sequence-parallel ranks keep their own parts of: the input
  // of a column-parallel layer, and between the two parts of a split backward the gradient of a
  // row-parallel one's output. The next product of the weight gradient waits for them.
  OpIndex gather_input(const ColumnLayer& layer);
  OpIndex gather_gradient(std::string_view layer);
  OpIndex column_wgrad(const ColumnLayer& layer);
  OpIndex row_wgrad(std::string_view name, std::int64_t inputs);

 private:
  OpIndex gather_kept(std::string_view operand, DataType type);
  [[nodiscard]] DataType gemm_type(bool is_head) const;
  [[nodiscard]] bool chunked() const;

  const TensorOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  Elementwise& elementwise_;
  LinearLayers& linear_;
  TensorGroup& group_;
};

// ---- all of them together

struct LayerTools {
  LayerTools(const LayerOptions& of_layer, const StepShape& step, ProgramBuilder& builder)
      : options(of_layer),
        shape(step),
        build(builder),
        elementwise(options.architecture, options.elementwise_kernels, shape, build),
        linear(options.gemms, shape, build, elementwise),
        group(options.tensor, shape, build, elementwise),
        tensor(options.tensor, shape, build, elementwise, linear, group) {}
  LayerTools(const LayerTools&) = delete;  // its parts refer to each other
  LayerTools& operator=(const LayerTools&) = delete;

  // A layer is computed again as a whole, and nothing reads what its last product makes.
  [[nodiscard]] bool ends_early() const {
    return options.stops_early && build.tags().part == StepPart::Recompute;
  }

  // Runs what it is given as recomputation.
  template <typename Module>
  void repeat(const Module& module) {
    const Tags tags = build.tags();
    Tags repeated = tags;
    repeated.part = StepPart::Recompute;
    build.tag(repeated);
    module();
    build.tag(tags);
  }

  const LayerOptions& options;
  const StepShape& shape;
  ProgramBuilder& build;
  Elementwise elementwise;
  LinearLayers linear;
  TensorGroup group;
  TensorParallel tensor;
};

// A writer of a part of a layer, with the tools at hand.
class BlockWriter {
 protected:
  using Rows = LinearLayers::Rows;

  explicit BlockWriter(LayerTools& tools)
      : tools_(tools),
        options_(tools.options),
        arch_(tools.options.architecture),
        kernels_(tools.options.elementwise_kernels),
        shape_(tools.shape),
        build_(tools.build),
        elementwise_(tools.elementwise),
        linear_(tools.linear),
        group_(tools.group),
        tensor_(tools.tensor) {}

  LayerTools& tools_;
  const LayerOptions& options_;
  const Architecture& arch_;
  const ElementwiseKernels& kernels_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  Elementwise& elementwise_;
  LinearLayers& linear_;
  TensorGroup& group_;
  TensorParallel& tensor_;
};

}  // namespace trainyard
