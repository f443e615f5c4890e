// One transformer layer of one rank, forward and backward, as kernels and collectives.
//
// The operations and their shapes are those of reference 04 section 1 (Shoeybi et al. 1909.08053;
// Korthikanti et al. 2205.05198). Norms and the order of the halves are written here; what stands
// in each half is a kind of block (layer_block.hpp). Layers that are alike are written once and
// copied.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "models/lower/layer_block.hpp"
#include "models/lower/layer_parts.hpp"
#include "models/lower/program_builder.hpp"
#include "models/lower/step_shape.hpp"

namespace trainyard {

class LayerLowering {
 public:
  LayerLowering(const TrainingPlan& plan, const StepShape& shape, ProgramBuilder& build)
      : tools_(plan, shape, build) {}

  // Forward of one layer, or of the parts of it that stand here; the tags say which, and whether it
  // is the forward step or a recomputation.
  void forward(const LayerParts& parts = {});
  // Backward of one layer, or a part of it; its gradients in the order they become final.
  std::vector<ReadyGradient> backward(BackwardPart part, const LayerParts& parts = {});

 private:
  // What the operations of a layer depend on, beside the plan and what stands before them: all that
  // follows from the number of the layer belongs here.
  struct LayerKey {
    bool backward = false;
    BackwardPart backward_part = BackwardPart::Full;
    bool trained = false;
    std::string_view attention = {};  // names of kinds
    std::string_view feed_forward = {};
    BlockVariant attention_variant = {};
    BlockVariant feed_forward_variant = {};
    StepPart part = StepPart::Other;
    auto operator<=>(const LayerKey&) const = default;
  };
  // A layer as it was written once.
  struct WrittenLayer {
    RecordedLayer layer;
    std::vector<ReadyGradient> ready;  // by operation of the layer, from its first
  };
  [[nodiscard]] const LayerBlockKind& block(LayerHalf half) const;
  // None where the layer is not written alike in every microbatch.
  [[nodiscard]] std::optional<LayerKey> key_of(const LayerParts& parts) const;
  [[nodiscard]] std::optional<std::vector<ReadyGradient>> repeated(
      const std::vector<WrittenLayer>& written);
  template <typename Write>
  std::vector<ReadyGradient> write_or_repeat(const LayerKey& key, const Write& write);
  void write_forward(const LayerParts& parts);
  std::vector<ReadyGradient> write_backward(BackwardPart part, const LayerParts& parts);

  LayerTools tools_;
  std::map<LayerKey, std::vector<WrittenLayer>> written_;
};

}  // namespace trainyard
