// One transformer layer of one rank, forward and backward, as kernels and collectives.
//
// The operations and their shapes are those of reference 04 section 1 (Shoeybi et al. 1909.08053;
// Korthikanti et al. 2205.05198); the order and what overlaps are Megatron-LM's: in a
// column-parallel backward the input is gathered again while dgrad runs, and its gradient is
// reduced while wgrad runs.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "models/adapters.hpp"
#include "models/lower/layer_parts.hpp"
#include "models/lower/program_builder.hpp"
#include "models/plan.hpp"

namespace trainyard {

class ExpertRouting;
class TensorPipeline;

// A weight gradient that has become final at the end of that operation; how many parameters it is
// of stands in entries.hpp.
struct ReadyGradient {
  OpIndex op = kNone;
  bool expert = false;  // reduced over the replicas of the experts
};

// Where a program stands among the experts; all alike under balanced routing.
struct ExpertSeat {
  std::int64_t place = 0;
  std::int64_t replica = 0;
};

// Which kernels of a backward: all, those of the input gradient, or the products of the weight
// gradient that a zero-bubble schedule runs later. What the first gathered the second finds kept.
enum class BackwardPart : std::uint8_t { Full, Input, Weight };

// Sizes every part of the lowering needs, worked out once.
struct StepShape {
  explicit StepShape(const TrainingPlan& plan, std::int64_t ring_place = 0);

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

class LayerLowering {
 public:
  LayerLowering(const TrainingPlan& plan, const StepShape& shape, ProgramBuilder& build);

  // Forward of one layer, or of the parts of it that stand here; the tags say which, and whether it
  // is the forward step or a recomputation.
  void forward(const LayerParts& parts = {});
  // Backward of one layer, or a part of it. Where `ready` is given, appends the gradients in the
  // order they become final.
  void backward(BackwardPart part, std::vector<ReadyGradient>* ready, const LayerParts& parts = {});

  // A tensor-parallel collective over `bytes` after the last compute operation; kNone without
  // tensor parallelism. `blocking`: the next compute operation waits for it.
  // In the precision of training unless `wire` says otherwise.
  OpIndex tensor_collective(CollectiveOp op, std::int64_t bytes, std::string_view name,
                            bool blocking, std::optional<DataType> wire = {});
  // Joins the partial sums of a row-parallel product, as all_reduce, or reduce_scatter over the
  // sequence.
  void join_partial_sums(std::string_view name);
  void gather_sequence(std::string_view name);  // nothing without sequence parallelism
  // The rows of an operand of a linear layer's product, in the recipe's sequence_wire if this
  // product is one of the recipe's; kNone without sequence parallelism.
  OpIndex gather_operand(std::string_view name, DataType product, bool blocking);
  // dgrad and wgrad of a column-parallel layer of `outputs` columns per rank and its communication;
  // the wgrad, or kNone for the input part.
  OpIndex column_backward(std::string_view name, std::int64_t outputs, BackwardPart part);
  // Adapters are trained, and no matrix itself.
  [[nodiscard]] bool frozen() const { return plan_.training.lora_rank > 0; }
  // Writes out so many numbers of a frozen matrix that is kept in four bits.
  void dequantise(std::string_view name, std::int64_t parameters);
  OpIndex memory_bound(std::string_view name, MemoryBoundKind kind, std::int64_t bytes,
                       std::int64_t launches = 1);
  // The streaming operations of a layer, as the framework runs them (models/streaming_kernels.hpp;
  // streaming.cpp).
  OpIndex stream(std::string_view name, MemoryBoundKind kind, const StreamingPass& pass,
                 std::int64_t numbers);
  void norm_forward(std::string_view name);
  OpIndex norm_backward(std::string_view name);
  // Of so many numbers that come out of the activation function.
  void activation_forward(std::string_view name, std::int64_t numbers);
  void activation_backward(std::string_view name, std::int64_t numbers);
  OpIndex row_backward(std::string_view name, std::int64_t inputs, BackwardPart part);
  // A product of a linear layer, m x k by k x n.
  [[nodiscard]] Gemm product(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const;

  // What a layer's backward runs again, none but under Selective.
  [[nodiscard]] const RecomputeModules& again() const { return again_; }
  // Runs what it is given as recomputation.
  template <typename Module>
  void repeat(const Module& module) {
    const Tags tags = build_.tags();
    Tags again = tags;
    again.part = StepPart::Recompute;
    build_.tag(again);
    module();
    build_.tag(tags);
  }

 private:
  enum class Way : std::uint8_t { Forward, Backward };
  // The expansion of a latent of `width` to `columns`; `beside` it, what else was gathered.
  struct LatentUp {
    std::int64_t width = 0;
    std::int64_t beside = 0;
    std::int64_t columns = 0;
  };
  // What the operations of a layer depend on, beside the plan and what stands before them: all that
  // follows from the number of the layer or the microbatch belongs here, or is no case for
  // repeats().
  struct BlockKey {
    bool backward = false;
    BackwardPart backward_part = BackwardPart::Full;
    bool gradients = false;  // are told
    bool trained = false;
    bool windowed = false;
    bool experts = false;
    std::array<std::int64_t, 3> rows = {};  // of the experts: ExpertRouting::RowsKey
    StepPart part = StepPart::Other;
    auto operator<=>(const BlockKey&) const = default;
  };
  // A layer as it was written once.
  struct WrittenLayer {
    RecordedLayer layer;
    std::vector<ReadyGradient> ready;  // by operation of the layer, from its first
  };
  // Layers that are alike in every microbatch are written once and then copied.
  [[nodiscard]] bool repeats(const LayerParts& parts) const;
  [[nodiscard]] BlockKey forward_key() const;
  [[nodiscard]] bool repeated(const std::vector<WrittenLayer>& written,
                              std::vector<ReadyGradient>* ready);
  template <typename Write>
  void write_or_repeat(const BlockKey& key, std::vector<ReadyGradient>* ready, const Write& write);
  void write_forward(const LayerParts& parts);
  void write_backward(BackwardPart part, std::vector<ReadyGradient>* ready,
                      const LayerParts& parts);
  void latent_attention_forward();
  void latent_attention_backward(BackwardPart part, std::vector<ReadyGradient>* ready);
  void latent_norm(std::string_view name, std::int64_t width, Way way);
  void latent_down(std::string_view name, std::int64_t width, std::int64_t beside);
  OpIndex latent_up_backward(std::string_view name, const LatentUp& up, BackwardPart part);
  OpIndex latent_down_backward(std::string_view name, std::int64_t width, std::int64_t beside,
                               BackwardPart part);
  void latent_up_again();
  void latent_heads(std::string_view rope, std::string_view assembly, Way way);
  [[nodiscard]] std::int64_t query_inputs() const;
  [[nodiscard]] bool has_experts() const;                  // the layer that the tags name
  [[nodiscard]] std::int64_t query_and_key_width() const;  // of this rank's heads
  void head_norms(std::string_view name, Way way);
  void rotary(std::string_view name, Way way);
  void repeat_heads(std::string_view name);
  void join_input_gradients(std::string_view name);
  void join_attention_gradients();
  void copy_sequence(std::string_view name, std::int64_t bytes);
  // Before the block it norms the input of, a norm's input also goes round that: what comes back
  // through both is the gradient of one tensor, which autograd reads twice and writes as a sum.
  struct NormBack {
    BackwardPart part = BackwardPart::Full;
    bool before_block = true;
  };
  void norm_back(std::string_view name, const NormBack& norm, std::vector<ReadyGradient>* ready);
  // Behind a block, "attention" or "ffn": its output, normed where the model has post_norms, is
  // added to what went round it.
  void residual_forward(std::string_view block);
  void residual_backward(std::string_view block, BackwardPart part,
                         std::vector<ReadyGradient>* ready);
  void ffn_weights(std::vector<ReadyGradient>* ready);
  void attention_weights(std::vector<ReadyGradient>* ready);
  // Where several tensor ranks have the same key-value head (architecture/shard.hpp): what the QKV
  // product made of all heads comes to every rank, and backward their gradients are summed.
  void gather_heads();
  void scatter_head_gradients();
  [[nodiscard]] std::int64_t all_heads_bytes() const;
  void attention_forward();
  void attention_core_forward();
  void attention_core_backward();
  void attention_backward(BackwardPart part, std::vector<ReadyGradient>* ready);
  // A product of gathered rows, or one whose result is joined; in pieces with `chunked_tensor`.
  void column_forward(std::string_view gather, std::string_view name, const Gemm& product);
  void row_forward(std::string_view join, std::string_view name, const Gemm& product);
  [[nodiscard]] bool chunked() const;
  [[nodiscard]] TensorPipeline tensor_pipeline() const;
  // Operands of weight gradients that sequence-parallel ranks keep their own parts of: the input of
  // a column-parallel layer, and between the two parts of a split backward the gradient of a
  // row-parallel one's output. The next product of the weight gradient waits for them.
  OpIndex gather_input(std::string_view layer);
  OpIndex gather_gradient(std::string_view layer);
  OpIndex gather_kept(std::string_view layer, std::string_view operand);
  OpIndex column_wgrad(std::string_view name, std::int64_t outputs);
  OpIndex row_wgrad(std::string_view name, std::int64_t inputs);
  void second_products_again();
  void ffn_forward();
  void ffn_matrices_forward();
  void ffn_up_forward();
  void ffn_down_forward();
  [[nodiscard]] bool stops_early() const;
  // Products of the adapters on the matrices that a kernel's name stands for
  // (adapter_products.cpp).
  void adapters_forward(std::string_view name);
  void adapters_back(std::string_view name, bool weights);
  void adapters_dgrad(std::string_view name);
  OpIndex adapters_wgrad(std::string_view name);
  // What comes before a product: a frozen matrix kept in four bits is written out, and where the
  // recipe multiplies in 8 bits the activation or gradient of so many elements is quantised, each
  // rank its own rows where these are gathered in 8 bits.
  enum class Rows { OwnedWhole, Gathered };
  void prepare(std::string_view name, std::int64_t parameters, std::int64_t elements,
               Rows rows = Rows::OwnedWhole);
  [[nodiscard]] std::int64_t wire_bytes() const;
  // Of the layer that the tags name.
  [[nodiscard]] std::vector<Adapter> adapters_here() const;
  [[nodiscard]] Attention flash(bool backward) const;
  void ffn_backward(BackwardPart part, std::vector<ReadyGradient>* ready);
  // Sequences times heads of this rank: matrices of scores.
  [[nodiscard]] std::int64_t score_matrices() const;
  [[nodiscard]] MemoryBound softmax(bool backward) const;
  [[nodiscard]] Gemm head_gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const;

  const TrainingPlan& plan_;
  const Architecture& arch_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  const std::vector<Adapter> adapters_;  // of one layer; empty where every weight is trained
  const RecomputeModules again_;
  std::map<BlockKey, std::vector<WrittenLayer>> written_;
};

}  // namespace trainyard
