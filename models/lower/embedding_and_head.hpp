// Writes the operations before and after the layers of a model: the embedding on the first virtual
// stage, LM head and loss on the last, and the input of layers of multi-token prediction.
//
// Shapes and collectives follow Megatron-LM core/tensor_parallel: layers.py and cross_entropy.py.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/architecture/memory.hpp"
#include "models/layers/layer_tools.hpp"
#include "models/lower/data_parallel/chunk_weights.hpp"

namespace trainyard {

// Embedding and LM head on one rank, for one microbatch.
struct EmbeddingAndHeadOptions {
  EmbeddingAndHeadParameters parameters = {};
  std::int64_t vocab = 0;  // entries of all tensor ranks together, padded
  bool trains_embedding = true;
  bool trains_head = true;
  HeadActivations head = {};
  std::int64_t embedding_kept = 0;  // bytes of activations
  // The kernel adds the gradient of the embedding to that of earlier microbatches; or the gradient
  // is kept sharded.
  bool sums_table = true;
  bool shards_table = false;
  bool fused_loss = false;
  std::int64_t loss_copies = 1;   // FrameworkMemory::loss_copies; 1 if the loss is fused
  std::int64_t loss_metrics = 0;  // ElementwiseKernels::loss_metrics
  bool keeps_gathered = false;    // ElementwiseKernels::keeps_gathered
  bool placeholder = false;       // the head's weight has a placeholder (layer_memory.hpp)
};

// The parts of final norm, LM head and loss on one device: all, unless the model is split by hand.
struct HeadParts {
  bool norm = true;
  bool matrix = true;
  bool loss = true;
};

// The tools that the writers below share.
class EmbeddingAndHeadWriter {
 public:
  // All arguments outlive the object.
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

// Each backward returns its gradients in the order in which they become final.
class Embedding : EmbeddingAndHeadWriter {
 public:
  using EmbeddingAndHeadWriter::EmbeddingAndHeadWriter;
  void forward();
  std::vector<ReadyGradient> backward();
};

// Final norm, LM head and vocabulary-parallel cross-entropy. Holds the logits from forward to
// backward. The caller frees logits, or their gradient, that are sent to another device.
class Head : EmbeddingAndHeadWriter {
 public:
  using EmbeddingAndHeadWriter::EmbeddingAndHeadWriter;
  void forward(const HeadParts& parts = {});
  // The weight part frees the gradient of the logits, which has the memory of the logits, and the
  // input of the head. In addition, the GEMMs hold the gradient of their input, the gathered input
  // under sequence parallelism, and a placeholder of the weight (layer_memory.hpp).
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

// The input of a layer of multi-token prediction: the embedding of the next token and the output of
// the layer before are normalised, concatenated, and projected from 2h to h.
class MtpInput : EmbeddingAndHeadWriter {
 public:
  using EmbeddingAndHeadWriter::EmbeddingAndHeadWriter;
  void forward();
  // `entries`: the number of gradients to return (the size of MtpEntries::before).
  std::vector<ReadyGradient> backward(BackwardPart part, std::size_t entries);

 private:
  [[nodiscard]] std::int64_t kept() const;
  OpIndex gather_input(std::string_view name, bool blocking);
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
