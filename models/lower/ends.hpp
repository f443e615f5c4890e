// The two ends of a model: the embedding on the first virtual stage, head and loss on the last.
//
// Shapes and collectives after reference 04 section 2 (Megatron-LM core/tensor_parallel).
#pragma once

#include <string_view>
#include <vector>

#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/layer_memory.hpp"
#include "models/lower/layer_tools.hpp"

namespace trainyard {

// Parameters of one rank at the ends.
struct EndParameters {
  std::int64_t embedding = 0;   // word embedding, split over the vocabulary
  std::int64_t positions = 0;   // learned positions, replicated; 0 for rotary
  std::int64_t final_norm = 0;  // replicated
  std::int64_t head = 0;        // split; 0 where it shares the embedding of the same rank
};
[[nodiscard]] EndParameters end_parameters(const TrainingPlan& plan);
// First and last stage, on different ranks, both hold the embedding: as a tied head, or to read the
// tokens that layers of multi-token prediction start from. Its gradients are summed over the two.
[[nodiscard]] bool shares_embedding(const TrainingPlan& plan);
// The parameters of such a layer beside an ordinary one, in backward order: behind it the norm
// before the head; before it the projection, its two norms and a copy of the embedding, if any.
struct FurtherEntries {
  std::vector<GradientEntry> behind;
  std::vector<GradientEntry> before;
};
[[nodiscard]] FurtherEntries further_entries(const TrainingPlan& plan);

// What of the model's end stands on one device: all, unless it is split by hand.
struct HeadParts {
  bool norm = true;
  bool matrix = true;
  bool loss = true;
};

class EndLowering {
 public:
  EndLowering(const TrainingPlan& plan, const StepShape& shape, ProgramBuilder& build)
      : plan_(plan), shape_(shape), build_(build), tools_(plan, shape, build) {}

  void embedding_forward();
  // Backward each returns its gradients in the order they become final.
  std::vector<ReadyGradient> embedding_backward();
  // Final norm, head, vocabulary-parallel cross-entropy. Holds the logits until `head_backward`.
  // Logits, or their gradient, that go to another device are the caller's to free.
  void head_forward(const HeadParts& parts = {});
  // Its weight part frees the logits and the input of the head, kept for it as a gradient. Beside
  // them the product holds its input's gradient, the input it gathers again where the sequence is
  // split, and a placeholder of its weight (layer_memory.hpp).
  std::vector<ReadyGradient> head_backward(BackwardPart part, const HeadParts& parts = {});
  // Before a layer of multi-token prediction: the next token's embedding and what the layer before
  // made, each normed, side by side through a projection of 2h to h.
  void further_forward();
  std::vector<ReadyGradient> further_backward(BackwardPart part);

 private:
  void matrix_forward(const HeadParts& parts);
  void loss_forward(const HeadParts& parts);
  OpIndex matrix_backward(BackwardPart part, const HeadParts& parts);
  void reduce_loss();
  [[nodiscard]] std::int64_t logits() const;  // elements on this rank
  [[nodiscard]] HeadActivations head_memory() const;
  [[nodiscard]] std::int64_t embedding_memory() const;
  [[nodiscard]] std::int64_t further_memory() const;
  OpIndex table_gradient(std::string_view name);
  [[nodiscard]] std::int64_t head_workspace(BackwardPart part) const;
  [[nodiscard]] std::int64_t loss_copies() const;
  struct LossBytes {
    std::int64_t forward = 0;
    std::int64_t backward = 0;
  };
  [[nodiscard]] LossBytes loss_bytes() const;
  void loss_backward();
  void evaluate_metrics();

  const TrainingPlan& plan_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  LayerTools tools_;
};

}  // namespace trainyard
