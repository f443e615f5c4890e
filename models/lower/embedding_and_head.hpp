// The two ends of a model: the embedding on the first virtual stage, head and loss on the last.
//
// Shapes and collectives after reference 04 section 2 (Megatron-LM core/tensor_parallel).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/architecture/memory.hpp"
#include "models/layers/layer_tools.hpp"
#include "models/lower/data_parallel/chunk_weights.hpp"

namespace trainyard {

// The ends of the model on one rank, for one microbatch.
struct EmbeddingAndHeadOptions {
  EmbeddingAndHeadParameters parameters = {};
  std::int64_t vocab = 0;  // of all tensor ranks, padded
  bool trains_embedding = true;
  bool trains_head = true;
  HeadActivations head = {};
  std::int64_t embedding_kept = 0;
  // The embedding's gradient is added to that of the microbatches before; or it is kept sharded.
  bool sums_table = true;
  bool shards_table = false;
  bool fused_loss = false;
  std::int64_t loss_copies = 1;   // FrameworkMemory::loss_copies; 1 where the loss is fused
  std::int64_t loss_metrics = 0;  // ElementwiseKernels::loss_metrics
  bool keeps_gathered = false;    // ElementwiseKernels::keeps_gathered
  bool placeholder = false;       // of the head's weight (layer_memory.hpp)
  std::size_t mtp_entries = 0;    // before a layer of multi-token prediction
};

// The parts of the model's end that stand on one device: all, unless it is split by hand.
struct HeadParts {
  bool norm = true;
  bool matrix = true;
  bool loss = true;
};

// The tools that the writers of the ends share.
class EmbeddingAndHeadWriter {
 public:
  // All of it outlives this.
  EmbeddingAndHeadWriter(const EmbeddingAndHeadOptions& options, const LayerOptions& of_layer,
                         const StepShape& shape, ProgramBuilder& build)
      : options_(options),
        arch_(of_layer.architecture),
        shape_(shape),
        build_(build),
        tools_(of_layer, shape, build) {}

 protected:
  OpIndex table_gradient(std::string_view name);

  const EmbeddingAndHeadOptions& options_;
  const Architecture& arch_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  LayerTools tools_;
};

// Each backward returns its gradients in the order they become final.
class Embedding : EmbeddingAndHeadWriter {
 public:
  using EmbeddingAndHeadWriter::EmbeddingAndHeadWriter;
  void forward();
  std::vector<ReadyGradient> backward();
};

// Final norm, head, vocabulary-parallel cross-entropy. Holds the logits from forward to backward;
// those that go to another device, or their gradient, are the caller's to free.
class Head : EmbeddingAndHeadWriter {
 public:
  using EmbeddingAndHeadWriter::EmbeddingAndHeadWriter;
  void forward(const HeadParts& parts = {});
  // Its weight part frees the logits and the input of the head, kept for it as a gradient. Beside
  // them the product holds its input's gradient, the input it gathers again where the sequence is
  // split, and a placeholder of its weight (layer_memory.hpp).
  std::vector<ReadyGradient> backward(BackwardPart part, const HeadParts& parts = {});

 private:
  void matrix_forward(const HeadParts& parts);
  void loss_forward(const HeadParts& parts);
  OpIndex matrix_backward(BackwardPart part, const HeadParts& parts);
  void loss_backward();
  void reduce_loss();
  void evaluate_metrics();
  [[nodiscard]] std::int64_t logits() const;  // elements on this rank
  [[nodiscard]] std::int64_t workspace(BackwardPart part) const;
  struct LossBytes {
    std::int64_t forward = 0;
    std::int64_t backward = 0;
  };
  [[nodiscard]] LossBytes loss_bytes() const;
};

// Before a layer of multi-token prediction: the next token's embedding and what the layer before
// made, each normed, side by side through a projection of 2h to h.
class MtpInput : EmbeddingAndHeadWriter {
 public:
  using EmbeddingAndHeadWriter::EmbeddingAndHeadWriter;
  void forward();
  std::vector<ReadyGradient> backward(BackwardPart part);

 private:
  [[nodiscard]] std::int64_t kept() const;
};

struct EmbeddingAndHead {
  EmbeddingAndHead(const EmbeddingAndHeadOptions& options, const LayerOptions& of_layer,
                   const StepShape& shape, ProgramBuilder& build)
      : embedding(options, of_layer, shape, build),
        head(options, of_layer, shape, build),
        mtp(options, of_layer, shape, build) {}

  Embedding embedding;
  Head head;
  MtpInput mtp;
};

}  // namespace trainyard
