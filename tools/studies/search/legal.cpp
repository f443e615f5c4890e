#include <algorithm>
#include <vector>

#include "models/architecture/weights.hpp"
#include "models/pipeline_shape.hpp"
#include "models/rank_groups.hpp"
#include "models/schedules/schedule.hpp"
#include "sim/base/error.hpp"
#include "tools/studies/search/space.hpp"

namespace trainyard {

namespace {

// Every replica does the same whole number of microbatches.
bool batch_divides(const TrainingPlan& plan) {
  const Training& training = plan.training;
  return training.micro_batch_size > 0 &&
         training.global_batch_size % (training.micro_batch_size * plan.parallelism.data) == 0;
}

// If the tensor ranks replicate kv heads, every head needs the same number of copies.
bool kv_heads_divide(const Architecture& model, std::int64_t tensor) {
  if (model.latent()) return true;  // as many as query heads
  if (!replicates_kv_heads(model, tensor)) return model.kv_heads % tensor == 0;
  return tensor % model.kv_heads == 0 && 2 * model.kv_width() % tensor == 0;
}

bool heads_divide(const Architecture& model, std::int64_t tensor) {
  if (model.heads % tensor != 0 || !kv_heads_divide(model, tensor)) return false;
  if (model.shared_ffn % tensor != 0) return false;
  return model.has_experts() || model.ffn % tensor == 0;
}

bool heads_divide(const TrainingPlan& plan) {
  const std::vector<std::int64_t>& numbers = plan.parallelism.tensor_per_stage;
  if (numbers.empty()) return heads_divide(plan.architecture, plan.parallelism.tensor);
  return std::ranges::all_of(
      numbers, [&](std::int64_t tensor) { return heads_divide(plan.architecture, tensor); });
}

bool sequence_divides(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  // a zigzag gives each context rank two chunks
  const std::int64_t chunks = p.context_split == ContextSplit::Zigzag ? 2 : 1;
  const std::int64_t pieces = p.context > 1 ? chunks * p.context : 1;
  // Ranks that share a sequence join partial results by the log-sum-exp of the flash kernel.
  const bool joins = p.context == 1 || plan.training.attention == AttentionKind::Flash;
  return joins &&
         plan.training.sequence_length % (pieces * (p.sequence_parallel ? p.tensor : 1)) == 0;
}

bool experts_divide(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  const Architecture& model = plan.architecture;
  if (!model.has_experts()) return p.expert == 1;
  const std::int64_t shared = p.expert_tensor_size();
  const std::int64_t ranks = p.tensor * p.context * p.data;
  if (p.expert <= 0 || model.experts % p.expert != 0) return false;
  if (model.expert_ffn % shared != 0 || ranks % (p.expert * shared) != 0) return false;
  return ExpertGrid::same_stages(p);
}

bool schedule_exists(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  if (p.interleave > 1 && p.pipeline == 1) return false;
  const FoundSchedule schedule = open_schedule(p.schedule);
  if (!schedule || schedule->refusal(pipeline_shape(plan))) return false;
  const StagePlacement placement = schedule->placement();
  // Such schedules send in both directions between two ranks at once. Blocking sends would
  // deadlock.
  if (placement != StagePlacement::Wrap && !p.overlap_p2p) return false;
  // Stages of unequal size pass activations on, but not back.
  if (placement != StagePlacement::Wrap && !p.tensor_per_stage.empty()) return false;
  // Every stage is on two ranks, whose gradients and weights cannot be sharded.
  if (placement == StagePlacement::Bidirectional && p.zero_stage > 1) return false;
  if (!plan.experts.overlap_dispatch) return true;
  return schedule->may_overlap_pairs(p.pipeline);
}

}  // namespace

bool layers_split(const TrainingPlan& plan) {
  try {
    (void)layer_split(plan);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

bool is_legal(const TrainingPlan& plan) {
  return batch_divides(plan) && heads_divide(plan) && sequence_divides(plan) &&
         experts_divide(plan) && schedule_exists(plan) && layers_split(plan);
}

bool replicas_divide_into_copies(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  if (p.shard > 0 && p.data % p.shard != 0) return false;
  if (p.reshard_group > 0 && p.shard_size() % p.reshard_group != 0) return false;
  const std::int64_t set = p.expert * p.expert_tensor_size();
  const auto holds_whole_sets = [&](std::int64_t replicas) {
    // a size of 0 means that none is named, and passes
    return p.tensor * p.context * replicas % set == 0;
  };
  return holds_whole_sets(p.shard) && holds_whole_sets(p.reshard_group);
}

}  // namespace trainyard
