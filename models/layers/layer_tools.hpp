// The training options that all block writers of a layer read, and the tools that they write with.
// The tools are elementwise kernels, GEMMs of linear layers, and collectives of the tensor group
// together with the GEMMs around them.
//
//    tools.elementwise.norm_forward("attention_norm");
//    tools.linear.prepare("ffn_down", hidden * ffn, tokens * ffn);
//    tools.tensor.column_forward("ffn_all_gather", "ffn_up_gemm",
//                                tools.linear.gemm(tokens, ffn, hidden, GemmPass::Forward));
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/architecture/architecture.hpp"
#include "models/architecture/recipe.hpp"
#include "models/attention_pairs.hpp"
#include "models/documents.hpp"
#include "models/framework.hpp"
#include "models/lower/program_builder.hpp"
#include "models/lower/step_shape.hpp"
#include "models/plan.hpp"
#include "models/trained_weights.hpp"

namespace trainyard {

// ---- options, built once for all programs of a step (models/lower/options.hpp)

// Options of the GEMMs of linear layers.
struct GemmOptions {
  const Architecture& architecture;
  const Recipe& recipe;
  bool accumulates = false;  // GEMMs of weight gradients add to the accumulated gradients, in fp32
  Fp8Scaling scaling = Fp8Scaling::Delayed;
  AdapterSet adapters = {};
  TrainedWeights trained = {};
};

// Options of the collectives of the tensor group.
struct TensorOptions {
  const Recipe& recipe;
  const CollectiveChoice& collectives;
  std::int64_t hidden = 0;
  bool overlaps = true;    // an input gradient is reduced while its weight gradient is computed
  bool in_pieces = false;  // Parallelism::chunked_tensor
  bool keeps_gathered = false;  // ElementwiseKernels::keeps_gathered
};

// Options of attention over ranks that share a sequence.
struct ContextOptions {
  const CollectiveChoice& collectives;
  std::int64_t ranks = 1;
  ContextShape shape = {};
  ContextExchange exchange = ContextExchange::Ring;
  ContextSplit split = ContextSplit::Zigzag;
};

struct AttentionOptions {
  AttentionKind kind = AttentionKind::Flash;
  DataType fused_dtype = DataType::Bf16;  // of the GEMMs inside a fused core
  StepDocuments documents;
  ContextOptions context;
};

struct ExpertOptions {
  const ExpertSettings& settings;
  const CollectiveChoice& collectives;
  std::int64_t places = 1;  // ranks that the experts are divided over
  std::int64_t tensor = 1;  // ranks that share an expert
  bool gemms_in_8_bits = false;
  // Whether tokens travel, each of them once (sends_tokens_once).
  [[nodiscard]] bool sends_once() const {
    return places > 1 && sends_tokens_once(settings.dispatcher);
  }
};

struct LayerOptions {
  const Architecture& architecture;
  const ElementwiseKernels& elementwise_kernels;
  GemmOptions gemms;
  TensorOptions tensor;
  AttentionOptions attention;
  ExpertOptions experts;
  // Modules that a backward recomputes; none except under Selective.
  RecomputeModules recomputed = {};
  // A layer that is recomputed as a whole omits its last GEMM.
  bool stops_early = false;
};

// ---- memory-bound kernels: norms, activation functions, residual additions, copies. A framework
// runs each as one kernel or as several (models/framework.hpp).

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
  // A norm before a block is also bypassed by the residual stream. Its input therefore gets two
  // gradients, and autograd reads both and writes their sum.
  struct NormBack {
    BackwardPart part = BackwardPart::Full;
    bool before_block = true;
  };
  // Writes a norm's part of a layer's backward. Returns the operation after which the gradient of
  // its weights is final.
  ReadyGradient norm_backward_step(std::string_view name, const NormBack& norm);
  // `numbers` is the number of outputs of the activation function.
  void activation_forward(std::string_view name, std::int64_t numbers);
  void activation_backward(std::string_view name, std::int64_t numbers);
  // After a block, "attention" or "ffn": its output is normed where the model has post_norms, and
  // then added to the residual stream. `added` is false where nothing reads the sum.
  void residual_forward(std::string_view block, bool added);
  std::vector<ReadyGradient> residual_backward(std::string_view block, BackwardPart part);
  // Adds the gradients of one input that come from several separate GEMMs, such as those of
  // queries, keys and values.
  void join_input_gradients(std::string_view name, std::int64_t gemms);
  void copy_sequence(std::string_view name, std::int64_t bytes);

 private:
  const Architecture& arch_;
  const ElementwiseKernels& kernels_;
  const StepShape& shape_;
  ProgramBuilder& build_;
};

// ---- GEMMs of linear layers, low-rank adapters on frozen matrices (models/trained_weights.hpp),
// and the casts that their storage and the recipe's precision need

class LinearLayers {
 public:
  LinearLayers(const GemmOptions& options, const StepShape& shape, ProgramBuilder& build,
               Elementwise& elementwise)
      : options_(options), shape_(shape), build_(build), elementwise_(elementwise) {}

  // A GEMM of m x k by k x n.
  [[nodiscard]] Gemm gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const;
  // True if adapters are trained and the matrices themselves are not.
  [[nodiscard]] bool frozen() const { return options_.adapters.any(); }
  // Dequantises this number of parameters of a frozen matrix that is stored in four bits.
  void dequantise(std::string_view name, std::int64_t parameters);
  // Writes the casts that a GEMM needs first. A frozen matrix that is stored in four bits is
  // dequantised. Where the recipe multiplies in 8 bits, the activation or gradient of `elements`
  // elements is quantised; if the operand is gathered in 8 bits, each rank quantises only its own
  // rows.
  enum class Rows : std::uint8_t { OwnedWhole, Gathered };
  void prepare(std::string_view name, std::int64_t parameters, std::int64_t elements,
               Rows rows = Rows::OwnedWhole);
  // HBM bytes that quantise so many numbers to 8 bits, in one or two layouts: each is read once, or
  // twice with Fp8Scaling::Current, and written once for each layout.
  [[nodiscard]] std::int64_t quantise_bytes(std::int64_t numbers, std::int64_t layouts) const;
  // GEMMs of the adapters on the matrices that the kernel of this name computes.
  void adapters_forward(std::string_view name);
  void adapters_dgrad(std::string_view name);
  OpIndex adapters_wgrad(std::string_view name);

 private:
  void adapters_back(std::string_view name, bool weights);
  [[nodiscard]] std::vector<Adapter> adapters_here() const;  // on the layer that the tags give

  const GemmOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  Elementwise& elementwise_;
};

// ---- collectives of the tensor-parallel group, and the GEMMs whose operand they gather or whose
// result they reduce
//
// The order and the overlap are those of Megatron-LM: in a column-parallel backward the input is
// gathered a second time while dgrad runs, and its gradient is reduced while wgrad runs.

// Collectives of the tensor group.
class TensorGroup {
 public:
  TensorGroup(const TensorOptions& options, const StepShape& shape, ProgramBuilder& build,
              Elementwise& elementwise)
      : options_(options), shape_(shape), build_(build), elementwise_(elementwise) {}

  // A collective over `bytes` after the last compute operation; kNone without tensor parallelism.
  // `blocking`: the next compute operation waits for it. The type is the precision of training
  // unless `wire` is given.
  OpIndex collective(CollectiveOp op, std::int64_t bytes, std::string_view name, bool blocking,
                     std::optional<DataType> wire = {});
  // Reduces the partial sums of a row-parallel GEMM, by all_reduce, or by reduce_scatter over the
  // sequence.
  void join_partial_sums(std::string_view name);
  void gather_sequence(std::string_view name);  // no operation without sequence parallelism
  // Gathers the rows of an operand of a linear layer's GEMM, of so many columns (the hidden width
  // if none are given). kNone without sequence parallelism.
  OpIndex gather_operand(std::string_view name, DataType gemm, bool blocking,
                         std::optional<std::int64_t> columns = {});
  // The type in which the operand of a GEMM is gathered: the recipe's sequence_wire if the recipe
  // sets the precision of this GEMM. Bytes of all its rows.
  [[nodiscard]] DataType operand_type(DataType gemm) const;
  [[nodiscard]] std::int64_t operand_bytes(DataType gemm, std::int64_t columns) const;

 private:
  const TensorOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  Elementwise& elementwise_;
};

// A column-parallel linear layer.
struct ColumnLayer {
  std::string_view name = {};
  std::int64_t outputs = 0;  // columns on one rank
  // Matrices with the same input, such as those of queries, keys and values.
  std::int64_t matrices = 1;
  bool is_head = false;  // the LM head stays in the precision of training, whatever the recipe is
};

// GEMMs of linear layers that are divided over the tensor group.
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

  // A GEMM of gathered rows, or one whose result is reduced; in pieces with `in_pieces`.
  void column_forward(std::string_view gather, std::string_view name, const Gemm& gemm);
  void row_forward(std::string_view join, std::string_view name, const Gemm& gemm);
  // dgrad and wgrad of a linear layer and their communication. They return the wgrad, or kNone for
  // the input part. A row-parallel layer has `inputs` rows of its matrix per rank.
  OpIndex column_backward(const ColumnLayer& layer, BackwardPart part);
  OpIndex row_backward(std::string_view name, std::int64_t inputs, BackwardPart part);
  // Gather operands of weight gradients of which a sequence-parallel rank stores only its part: the
  // input of a column-parallel layer, and, between the two parts of a split backward, the gradient
  // of a row-parallel layer's output. The next GEMM of a weight gradient waits for the result.
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

// ---- all tools together

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
  ~LayerTools() = default;

  // True if the layer is recomputed as a whole and nothing reads the output of its last GEMM.
  [[nodiscard]] bool skips_last_gemm() const {
    return options.stops_early && build.tags().part == StepPart::Recompute;
  }

  // Runs `module` with its operations tagged as recomputation.
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

// Base class of a writer of a part of a layer; gives access to the tools.
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
