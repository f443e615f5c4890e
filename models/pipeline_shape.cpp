#include "models/pipeline_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/architecture/flops.hpp"
#include "models/recompute.hpp"
#include "models/schedules/schedule.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

// Share of the layers that are recomputed as a whole. It is computed for a chunk with an equal
// share of the layers, because the real split needs the shape that is being computed here. Where
// the recomputed layers are listed, chunks have different numbers of them, and the mean over the
// model is used for all.
double recomputed_share_of_a_chunk(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  const std::int64_t chunks =
      plan.training.recompute_method == RecomputeMethod::Layers ? 1 : p.pipeline * p.interleave;
  const std::int64_t layers = std::max<std::int64_t>(1, plan.architecture.layers / chunks);
  double recomputed = 0.0;
  for (const RecomputeUnit& unit : recompute_units(plan.training, {.layers = layers})) {
    if (unit.recomputed) recomputed += static_cast<double>(unit.layers);
  }
  return recomputed / static_cast<double>(layers);
}

// Relative times of F, B and W, from the FLOPs of one layer and one token. The GEMMs are those of
// the last layer, which has the experts where there are any; the attention core is that of a layer
// without a window. GEMMs count 2 per weight and pass. The causal attention core counts s*(q + o)
// forward and 2.5 times that backward (reference: Dao 2307.08691, section 3.1). Recomputed forwards
// count as part of the input gradient.
StepCosts costs_of(const TrainingPlan& plan) {
  const Architecture& a = plan.architecture;
  const TokenFlops token =
      token_flops(a, {.sequence_length = plan.training.sequence_length, .vocab = a.vocab});
  const double gemms = token.layers.back().matrices;
  double core = 0.0;
  for (const LayerFlops& layer : token.layers) core = std::max(core, layer.attention);
  const double forward = gemms + core;
  if (!(forward > 0.0)) return {};
  const double repeated = recomputed_share_of_a_chunk(plan);
  return {.forward_s = 1.0,
          .input_s = (gemms + 2.5 * core) / forward + repeated,
          .weight_s = gemms / forward,
          .transfer_s = 0.0};
}

[[noreturn]] void refuse_field(const std::string& field, const std::string& problem,
                               const std::string& hint) {
  throw InputError(
      Problem{.file = {}, .pointer = "/parallelism/" + field, .problem = problem, .hint = hint});
}

// First and last ranks have the given numbers of layers; the ranks between them share the rest
// equally: 13 layers on 6 stages, 3 on the first and 2 on the last, give 3, 2, 2, 2, 2, 2.
std::vector<std::int64_t> split_by_ranks(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  if (p.pipeline == 1 && p.first_stage_layers && p.last_stage_layers) {
    refuse_field("last_stage_layers", "a pipeline of one stage has no separate last stage",
                 "leave first_stage_layers and last_stage_layers out");
  }
  std::int64_t rest = plan.architecture.layers;
  std::int64_t ranks = p.pipeline;
  for (const auto& given : {p.first_stage_layers, p.last_stage_layers}) {
    if (!given) continue;
    rest -= *given;
    --ranks;
  }
  if (rest < 0 || (ranks == 0 ? rest != 0 : rest % ranks != 0)) {
    refuse_field("first_stage_layers",
                 fmt::format("{} layers remain for {} stages between first and last", rest, ranks),
                 "choose first_stage_layers and last_stage_layers so that the rest divides");
  }
  std::vector<std::int64_t> layers(static_cast<std::size_t>(p.pipeline),
                                   ranks == 0 ? 0 : rest / ranks);
  if (p.first_stage_layers) layers.front() = *p.first_stage_layers;
  if (p.last_stage_layers) layers.back() = *p.last_stage_layers;
  return layers;
}

std::vector<std::int64_t> split_by_hand(const TrainingPlan& plan, std::int64_t stages) {
  const std::vector<std::int64_t>& given = plan.parallelism.layers_per_stage;
  const std::int64_t sum = std::accumulate(given.begin(), given.end(), std::int64_t{0});
  if (static_cast<std::int64_t>(given.size()) != stages) {
    refuse_field("layers_per_stage",
                 fmt::format("has {} entries for {} virtual stages", given.size(), stages),
                 "give one for each stage, in model order");
  }
  if (sum != plan.architecture.layers) {
    refuse_field("layers_per_stage",
                 fmt::format("adds up to {} layers; {} has {}", sum, plan.architecture.name,
                             plan.architecture.layers),
                 "each layer belongs to one stage");
  }
  return given;
}

}  // namespace

StagePlacement placement_of(const Parallelism& parallelism) {
  const FoundSchedule schedule = open_schedule(parallelism.schedule);
  return schedule ? schedule->placement() : StagePlacement::Wrap;
}

PipelineShape pipeline_shape(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  return {.stages = p.pipeline,
          .microbatches = plan.microbatches(),
          .chunks = p.interleave,
          .group_size = p.microbatch_group_size,
          .placement = placement_of(p),
          .costs = costs_of(plan)};
}

std::int64_t weight_copies(const Parallelism& parallelism) {
  return placement_of(parallelism) == StagePlacement::Bidirectional ? 2 : 1;
}

std::int64_t expert_copies(const Parallelism& parallelism) {
  return parallelism.expert_replicas() * weight_copies(parallelism);
}

bool embedding_and_head_on_one_rank(const Parallelism& parallelism) {
  // Also where an embedding is tied: operator_split requires one device for it.
  if (!parallelism.operator_devices.empty()) return true;
  return parallelism.pipeline == 1 || placement_of(parallelism) != StagePlacement::Wrap;
}

std::vector<std::int64_t> layer_split(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  const PipelineShape shape = pipeline_shape(plan);
  const std::int64_t stages = virtual_stages(shape);
  const std::int64_t chunks = chunks_per_share(shape);
  if (!p.layers_per_stage.empty()) return split_by_hand(plan, stages);
  if (p.first_stage_layers || p.last_stage_layers) {
    const std::vector<std::int64_t> by_rank = split_by_ranks(plan);
    std::vector<std::int64_t> split;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      const std::int64_t layers =
          by_rank[static_cast<std::size_t>(holder_of(shape, stage, {}).rank)];
      if (layers % chunks != 0) {
        refuse_field(
            "interleave",
            fmt::format("a stage of {} layers does not divide into {} chunks", layers, chunks),
            "use an interleave that divides the layers of every stage");
      }
      split.push_back(layers / chunks);
    }
    return split;
  }
  // Where the plan requests it, the embedding and the loss each count as one layer (Megatron's
  // account-for-embedding-in-pipeline-split and account-for-loss-in-pipeline-split): 30 layers on 4
  // stages then give 7, 8, 8, 7.
  const std::int64_t places =
      plan.architecture.layers + (p.embedding_in_split ? 1 : 0) + (p.loss_in_split ? 1 : 0);
  if (places % stages != 0 && p.balance == Balance::Auto) {
    // The first stages get one layer more; a simulation finds better shares.
    std::vector<std::int64_t> split(static_cast<std::size_t>(stages), places / stages);
    for (std::int64_t more = 0; more < places % stages; ++more)
      ++split[static_cast<std::size_t>(more)];
    return split;
  }
  if (places % stages != 0) {
    refuse_field(
        "pipeline",
        fmt::format(
            "{} layers do not divide over {} virtual stages ({} pipeline ranks x {} chunks)",
            places, stages, p.pipeline, chunks),
        "choose pipeline x interleave that divides the layers, or give first_stage_layers and "
        "last_stage_layers");
  }
  std::vector<std::int64_t> split(static_cast<std::size_t>(stages), places / stages);
  if (p.embedding_in_split) --split.front();
  if (p.loss_in_split) --split.back();
  return split;
}

}  // namespace trainyard
