// What a search tries of each size of a layout: values of `--over` where there are some, else the
// usual ones.
//
//   const Choices choices(plan, gpus_per_node, over);
//   choices.tensor();   // 1, 2, 4, 8 on nodes of eight
//
// The usual values; what is not among them is left to `--over`.
//
// - tensor: powers of two within a node
// - context: powers of two that leave each rank 8 192 tokens of a sequence, with fused attention
// - pipeline: every number of stages that deals the layers evenly
// - schedule: 1F1B, interleaved at every depth, and each one that splits backwards or runs both
//   ways. naive and gpipe are 1F1B with more waiting or more memory, zb_auto is zb_h1 where no
//   times are given, and a file is the user's own
// - expert: every divisor of the experts, each expert on one rank or on the tensor group
// - zero_stage: 0 to 3; up to 1 with a pipeline, whose microbatches would gather again each time
// - micro_batch_size: 1 to 8
// - recompute: none, full, and selective where the attention core is not fused, which a fused one
//   does by itself
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/plan.hpp"
#include "tools/studies/sweep/grid.hpp"

namespace trainyard {

struct ScheduleChoice {
  std::string name;
  std::int64_t chunks = 1;
};

struct ExpertChoice {
  std::int64_t groups = 1;
  std::int64_t tensor = 0;  // as Parallelism::expert_tensor
};

struct RecomputeChoice {
  Recompute value = Recompute::None;
  const char* word = "none";
};

class Choices {
 public:
  using Sizes = std::vector<std::int64_t>;

  // `plan` and `over` must outlive this. Each axis is of one path.
  Choices(const TrainingPlan& plan, std::int64_t gpus_per_node, const std::vector<Axis>& over);

  // Whether the search itself sets the field.
  [[nodiscard]] static bool sets(const std::string& path);

  [[nodiscard]] Sizes tensor() const;
  [[nodiscard]] Sizes context() const;
  [[nodiscard]] Sizes pipeline() const;
  // Those below are of a plan with the sizes above. They may not exist for it (legal.hpp).
  [[nodiscard]] std::vector<ScheduleChoice> schedules(const TrainingPlan& plan) const;
  [[nodiscard]] std::vector<ExpertChoice> experts(const TrainingPlan& plan) const;
  [[nodiscard]] Sizes zero_stages(const TrainingPlan& plan) const;
  [[nodiscard]] Sizes microbatches() const;
  [[nodiscard]] std::vector<RecomputeChoice> recomputations() const;

 private:
  [[nodiscard]] std::optional<std::vector<std::string>> words(const std::string& path) const;
  [[nodiscard]] std::optional<Sizes> sizes(const std::string& path) const;

  const TrainingPlan& plan_;
  std::int64_t gpus_per_node_;
  std::map<std::string, const Axis*> over_;
};

}  // namespace trainyard
