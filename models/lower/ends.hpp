// The two ends of a model: the embedding on the first virtual stage, head and loss on the last.
//
// Shapes and collectives after reference 04 section 2 (Megatron-LM core/tensor_parallel).
#pragma once

#include <vector>

#include "models/lower/layer.hpp"
#include "models/lower/layer_memory.hpp"

namespace trainyard {

// Parameters of one rank at the ends.
struct EndParameters {
  std::int64_t embedding = 0;   // word embedding, split over the vocabulary
  std::int64_t positions = 0;   // learned positions, replicated; 0 for rotary
  std::int64_t final_norm = 0;  // replicated
  std::int64_t head = 0;        // split; 0 where it shares the embedding of the same rank
};
[[nodiscard]] EndParameters end_parameters(const TrainingPlan& plan);

class EndLowering {
 public:
  EndLowering(const TrainingPlan& plan, const StepShape& shape, ProgramBuilder& build)
      : plan_(plan), shape_(shape), build_(build), layer_(plan, shape, build) {}

  void embedding_forward();
  void embedding_backward(std::vector<ReadyGradient>* ready);
  // Final norm, head, vocabulary-parallel cross-entropy. Holds the logits until `head_backward`.
  void head_forward();
  // Its weight part frees the logits and the input of the head, kept for it as a gradient.
  void head_backward(BackwardPart part, std::vector<ReadyGradient>* ready);

 private:
  void reduce_loss();
  [[nodiscard]] std::int64_t logits() const;  // elements on this rank
  [[nodiscard]] HeadActivations head_memory() const;
  [[nodiscard]] std::int64_t embedding_memory() const;

  const TrainingPlan& plan_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  LayerLowering layer_;
};

}  // namespace trainyard
