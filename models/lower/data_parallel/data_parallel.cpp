#include "models/lower/data_parallel/data_parallel.hpp"

#include "sim/base/check.hpp"

namespace trainyard {

std::unique_ptr<DataParallel> make_data_parallel(const DataParallelParts& parts) {
  return parts.options.parallelism.zero_stage == 3 ? make_fully_sharded(parts)
                                                   : make_bucketed_replicas(parts);
}

void UnitGradients::begin_backward() {
  ready_.clear();
  ended_ = 0;
}

void UnitGradients::add(const std::vector<ReadyGradient>& gradients) {
  ready_.insert(ready_.end(), gradients.begin(), gradients.end());
}

// The gradients of the first microbatch need no addition. For later microbatches, a separate kernel
// may accumulate all gradients of the unit (GradientLowering::accumulate); they are then ready when
// this kernel ends.
void UnitGradients::end_unit(const UnitBackward& step) {
  if (step.part != BackwardPart::Input && !step.first) {
    const OpIndex sum =
        gradients_.accumulate(weights_[step.place.chunk].all_parameters(step.place.unit));
    if (sum != kNone)
      for (std::size_t i = ended_; i < ready_.size(); ++i) ready_[i].op = sum;
  }
  ended_ = ready_.size();
  replicas_.after_backward(step, ready_);
}

void UnitGradients::end_backward(std::size_t chunk) const {
  const std::size_t entries = weights_[chunk].entries.size() + weights_[chunk].experts.size();
  TY_CHECK(ready_.size() == entries, ready_.size(), entries);
}

}  // namespace trainyard
