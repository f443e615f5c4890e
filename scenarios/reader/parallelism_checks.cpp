// Rules of the parallelism section: what divides among ranks, what the schedule allows, and models
// that are split by hand.
#include <fmt/format.h>

#include <algorithm>

#include "models/architecture/weights.hpp"
#include "models/attention_pairs.hpp"
#include "models/operator_devices.hpp"
#include "models/pipeline_shape.hpp"
#include "models/rank_groups.hpp"
#include "models/recompute.hpp"
#include "models/schedules/schedule.hpp"
#include "models/trained_weights.hpp"
#include "scenarios/reader/checks.hpp"

namespace trainyard {

namespace {

// Checks that a sequence divides into pieces over the context ranks (and then over the tensor
// ranks).
void check_context_length(const Check& check) {
  const Parallelism& p = check.sizes();
  if (p.context == 1 || !check.training) return;
  const std::int64_t chunks = (p.context_split == ContextSplit::Zigzag ? 2 : 1) * p.context;
  const std::int64_t pieces = chunks * (p.sequence_parallel ? p.tensor : 1);
  if (check.batch().sequence_length % pieces != 0) {
    check.file.report(
        "/training/sequence_length",
        fmt::format("{} tokens do not divide into {} pieces: {} {} on {} context ranks{}",
                    check.batch().sequence_length, pieces, chunks,
                    p.context_split == ContextSplit::Zigzag ? "zigzag chunks" : "parts", p.context,
                    p.sequence_parallel ? fmt::format(" x {} tensor ranks", p.tensor) : ""),
        fmt::format("choose a multiple of {}", pieces));
  }
  if (check.batch().attention != AttentionKind::Flash) {
    check.file.report("/training/attention",
                      "must be \"flash\" where ranks share a sequence: partial results are joined "
                      "by the log-sum-exp of the flash kernel",
                      "choose \"flash\", or set /parallelism/context to 1");
  }
}

// Checks that heads divide among the ranks of an all_to_all, which trades heads for positions: each
// rank gets some of a tensor rank's heads.
void check_context_heads(const Check& check, std::int64_t traders) {
  const Parallelism& p = check.sizes();
  const Architecture& model = check.architecture();
  // check_tensor() reports heads that do not divide among tensor ranks.
  if (traders == 1 || model.heads % p.tensor != 0) return;
  const std::int64_t heads = model.heads / p.tensor;
  if (heads % traders != 0) {
    check.file.report(
        "/parallelism/context",
        fmt::format("{} heads of a tensor rank do not divide among {} ranks of an all_to_all",
                    heads, traders),
        fmt::format("divisors: {}; or choose another context_exchange", divisors(heads, 64)));
    return;
  }
  const std::int64_t kv_heads = kv_heads_per_rank(model, p.tensor);
  if (kv_heads % traders == 0 || traders % kv_heads == 0) return;
  check.file.report("/parallelism/context",
                    fmt::format("{} key-value heads of a tensor rank neither divide among {} ranks "
                                "nor can be copied evenly to them",
                                kv_heads, traders),
                    "one of the two numbers must divide the other");
}

// Checks that gradients can be reduced while the schedule runs: both ranks of a stage must finish
// their stages in the same order. REQUIRES: the schedule accepts this shape.
void check_reduction_order(const Check& check, const Schedule& schedule) {
  const TrainingPlan& plan = check.scenario.plan;
  if (schedule.placement() != StagePlacement::Bidirectional ||
      !plan.parallelism.overlap_grad_reduce)
    return;
  const PipelineShape shape = pipeline_shape(plan);
  if (const auto fault = check_reductions(all_steps(schedule, shape), shape))
    check.file.report("/parallelism/schedule", *fault,
                      "end the last backwards of both ranks in one order of stages, or set "
                      "overlap_grad_reduce to false");
}

// Slots of a rank have 16-bit numbers, and a device has four slots for each other device.
constexpr std::int64_t kDevicesMost = (65536 - static_cast<std::int64_t>(Slot::Peers)) / 4;

void check_devices_parallelism(JsonFile& file, const Parallelism& p) {
  const auto refuse = [&](const char* field, const std::string& problem, const char* hint) {
    file.report(std::string("/parallelism/") + field, problem, hint);
  };
  const Schedule* schedule = find_schedule(p.schedule);
  if (schedule == nullptr || !schedule->one_microbatch_at_a_time())
    refuse(
        "schedule",
        fmt::format("is {}; a model split by operator_devices has one microbatch in it at a time",
                    p.schedule),
        "set it to \"naive\"");
  if (p.pipeline > kDevicesMost)
    refuse("pipeline", fmt::format("{} devices are more than {}", p.pipeline, kDevicesMost),
           "put more operators on one device");
  const auto divides = [&](const char* field, std::int64_t size) {
    if (size > 1)
      refuse(field, fmt::format("operator_devices puts an operator on one device, not on {}", size),
             "leave it out");
  };
  divides("tensor", p.tensor);
  divides("context", p.context);
  divides("expert", p.expert);
  divides("expert_tensor", p.expert_tensor);
  divides("interleave", p.interleave);
  if (p.zero_stage == 3)
    refuse("zero_stage", "3 gathers whole layers, which operator_devices splits",
           "set it to 2 or less");
  const bool split = !p.layers_per_stage.empty() || p.first_stage_layers || p.last_stage_layers ||
                     p.embedding_in_split || p.loss_in_split;
  if (split)
    refuse("operator_devices", "cannot be combined with other fields that divide the layers",
           "leave layers_per_stage, first_stage_layers, last_stage_layers and the *_in_split out");
}

void check_devices_training(JsonFile& file, const TrainingPlan& plan) {
  const Training& training = plan.training;
  const auto refuse = [&](const char* field, const std::string& problem, const char* hint) {
    file.report(std::string("/training/") + field, problem, hint);
  };
  const auto unknown = [](const char* what) {
    return fmt::format("{} are not modelled together with operator_devices", what);
  };
  const char* off = "leave it out, or split by layers_per_stage";
  if (training.lora_rank > 0) refuse("lora_rank", unknown("adapters"), off);
  if (freezes(training)) refuse("frozen_layers", unknown("weights that are not trained"), off);
  if (training.mtp_layers > 0) refuse("mtp_layers", unknown("MTP layers"), off);
  if (plan.optimizer.orthogonalisations > 0)
    refuse("optimizer", unknown("optimizers that make whole matrices orthogonal"),
           "take another optimizer, or split by layers_per_stage");
  if (training.recompute == Recompute::Full)
    refuse("recompute", R"("full" recomputes whole layers, which operator_devices splits)",
           R"(choose "selective" or "none", or split by layers_per_stage)");
  if (training.recompute != Recompute::Selective) return;
  for (bool RecomputeModules::*const module :
       {&RecomputeModules::norms, &RecomputeModules::second_gemms})
    if (training.recompute_modules.*module)
      refuse("recompute_modules",
             fmt::format("\"{}\" recomputes for an operator that may be on another device",
                         word_for(kRecomputeModules, module)),
             "leave it out, or split by layers_per_stage");
}

}  // namespace

void check_rank_order(const Check& check) {
  if (!check.parallelism) return;
  std::vector<std::string> dimensions;
  std::string order = check.sizes().rank_order;
  for (std::size_t end = 0; end != std::string::npos;) {
    end = order.find('-');
    dimensions.push_back(order.substr(0, end));
    order.erase(0, end == std::string::npos ? end : end + 1);
  }
  std::sort(dimensions.begin(), dimensions.end());
  if (dimensions == std::vector<std::string>{"cp", "dp", "ep", "pp", "tp"}) return;
  check.file.report("/parallelism/rank_order",
                    fmt::format("must name each of tp, cp, ep, dp, pp once, not \"{}\"",
                                check.sizes().rank_order),
                    "Megatron's order is \"tp-cp-ep-dp-pp\"");
}

void check_context(const Check& check) {
  if (!check.parallelism) return;
  const Parallelism& p = check.sizes();
  const bool hierarchical = p.context_exchange == ContextExchange::Hierarchical;
  const std::int64_t inner = p.context_all_to_all;
  if (hierarchical && (inner == 0 || p.context % inner != 0)) {
    check.file.report("/parallelism/context_all_to_all",
                      fmt::format("must divide the {} context ranks of an \"a2a+p2p\" exchange, "
                                  "not {}",
                                  p.context, inner),
                      fmt::format("divisors: {}", divisors(p.context, 64)));
    return;
  }
  if (!hierarchical && inner != 0) {
    check.file.report("/parallelism/context_all_to_all", "is only for the exchange \"a2a+p2p\"",
                      "leave it out, or set /parallelism/context_exchange to \"a2a+p2p\"");
  }
  check_context_length(check);
  if (check.model && check.architecture().window > 0 && p.context > 1)
    check.file.report("/parallelism/context",
                      "attention within a window is not modelled where ranks share a sequence",
                      "set it to 1, or /model/window to 0");
  if (check.model) check_context_heads(check, context_shape(p).heads);
}

// Checks that the fields of the split do not contradict each other, and then the split itself.
void check_layers(const Check& check) {
  if (!check.model || !check.parallelism || !check.sizes().operator_devices.empty()) return;
  const Parallelism& p = check.sizes();
  if (!p.layers_per_stage.empty() &&
      (p.embedding_in_split || p.loss_in_split || p.first_stage_layers || p.last_stage_layers)) {
    check.file.report("/parallelism/layers_per_stage",
                      "defines the whole split: no other field of the split may be given",
                      "leave first_stage_layers, last_stage_layers and the *_in_split out");
    return;
  }
  if ((p.embedding_in_split || p.loss_in_split) && (p.first_stage_layers || p.last_stage_layers)) {
    check.file.report(
        p.first_stage_layers ? "/parallelism/first_stage_layers" : "/parallelism/last_stage_layers",
        "cannot be given together with embedding_in_split or loss_in_split",
        "use one way to make the split uneven");
    return;
  }
  try {
    (void)layer_split(check.scenario.plan);
    if (check.training) check_recomputed_fraction(check);
  } catch (const InputError& error) {
    check.report(error);
  }
}

// Checks that the schedule accepts the shape. It needs a whole number of microbatches, which
// check_batch() reports.
void check_schedule_shape(const Check& check) {
  if (!check.parallelism) return;
  if (check.sizes().interleave > 1 && check.sizes().pipeline == 1) {
    check.file.report("/parallelism/interleave",
                      fmt::format("{} chunks on one pipeline stage have nothing to interleave",
                                  check.sizes().interleave),
                      "set it to 1, or /parallelism/pipeline to more than 1");
    return;
  }
  if (!check.training) return;
  const Parallelism& p = check.sizes();
  std::vector<std::int64_t> microbatches = p.replica_microbatches;
  if (microbatches.empty()) {
    if (check.batch().global_batch_size % check.round() != 0) return;
    microbatches.push_back(check.scenario.plan.microbatches());
  }
  const FoundSchedule schedule = open_schedule(p.schedule);
  if (!schedule) return;  // the reader has reported it
  std::optional<std::string> refusal;
  for (const std::int64_t count : microbatches)
    if (!refusal)
      refusal = schedule->refusal({.stages = p.pipeline,
                                   .microbatches = count,
                                   .chunks = p.interleave,
                                   .group_size = p.microbatch_group_size});
  if (refusal) {
    check.file.report("/parallelism/schedule", *refusal);
  } else if (schedule->placement() != StagePlacement::Wrap && !p.overlap_p2p) {
    check.file.report("/parallelism/overlap_p2p",
                      p.schedule +
                          " sends in both directions between two ranks at once, where blocking "
                          "sends would deadlock",
                      "set overlap_p2p to true");
  } else if (check.model) {
    check_reduction_order(check, *schedule);
  }
}

// Reports settings of sharding that contradict each other or have no effect.
void check_shards(const Check& check) {
  if (!check.parallelism) return;
  const Parallelism& p = check.sizes();
  const auto refuse = [&check](const char* field, const std::string& problem,
                               const std::string& hint) {
    check.file.report(std::string("/parallelism/") + field, problem, hint);
  };
  if (p.shard > 0 && p.data % p.shard != 0) {
    refuse("shard", fmt::format("{} replicas do not divide into copies of {}", p.data, p.shard),
           fmt::format("divisors: {}", divisors(p.data, 1024)));
  } else if (p.shard > 0 && p.zero_stage == 0) {
    refuse("shard", "has no effect: nothing is sharded", "set zero_stage to 1, 2 or 3");
  } else if (p.reshard_group > 0 && p.zero_stage < 3) {
    refuse("reshard_group", "has no effect: weights are not sharded", "set zero_stage to 3");
  } else if (p.reshard_group > 0 && p.shard_size() % p.reshard_group != 0) {
    refuse("reshard_group",
           fmt::format("{} does not divide the {} replicas that share the weights", p.reshard_group,
                       p.shard_size()),
           fmt::format("divisors: {}", divisors(p.shard_size(), 1024)));
  }
  if (p.gradient_buckets == BucketRule::Pytorch && p.zero_stage > 0) {
    refuse("gradient_buckets", "PyTorch's buckets need replicas that are not sharded",
           "set zero_stage to 0, or leave gradient_buckets out");
  }
  if (p.gradient_buckets_in_flight > 0 && p.zero_stage != 2) {
    refuse("gradient_buckets_in_flight", "applies to zero_stage 2 only",
           "set zero_stage to 2, or leave gradient_buckets_in_flight out");
  }
  const bool both_ways = placement_of(p) == StagePlacement::Bidirectional;
  if (both_ways && (p.zero_stage > 1 || p.shard_size() < p.data)) {
    refuse("zero_stage",
           fmt::format("{} keeps every stage on two ranks, whose gradients and weights cannot be "
                       "sharded",
                       p.schedule),
           "set zero_stage to 0 or 1 and leave shard out");
  }
}

void check_operator_devices(const Check& check) {
  const TrainingPlan& plan = check.scenario.plan;
  if (!check.parallelism || plan.parallelism.operator_devices.empty()) return;
  check_devices_parallelism(check.file, plan.parallelism);
  if (check.training) check_devices_training(check.file, plan);
  const auto refuse = [&](const char* section, const char* what) {
    check.file.report(section, fmt::format("{} not modelled together with operator_devices", what),
                      "leave one of them out");
  };
  if (plan.offload.any()) refuse("/offload", "offloaded state is");
  if (plan.servers.servers > 0) refuse("/parameter_servers", "parameter servers are");
  if (plan.documents.drawn() && plan.documents.independent_replicas && plan.parallelism.data > 1)
    refuse("/documents/independent_replicas", "documents that differ between replicas are");
  if (!check.model) return;
  if (plan.architecture.has_experts() && plan.experts.routing != RoutingKind::Balanced)
    refuse("/experts/routing", "uneven loads of experts are");
  try {
    (void)operator_split(plan);
  } catch (const InputError& error) {
    check.report(error);
  }
}

}  // namespace trainyard
