#include "scenarios/reader/device_checks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/operator_devices.hpp"
#include "models/rank_groups.hpp"
#include "models/recompute.hpp"
#include "models/schedules/schedule.hpp"
#include "models/trained_weights.hpp"

namespace trainyard {

namespace {

// Slots of a rank are numbered in 16 bits, and a device has four for each other one.
constexpr std::int64_t kDevicesMost = (65536 - static_cast<std::int64_t>(Slot::Peers)) / 4;

void check_parallelism(JsonFile& file, const Parallelism& p) {
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
      refuse(field, fmt::format("{} cannot divide what operator_devices puts on one device", size),
             "leave it out");
  };
  divides("tensor", p.tensor);
  divides("context", p.context);
  divides("expert", p.expert);
  divides("expert_tensor", p.expert_tensor);
  divides("interleave", p.interleave);
  if (p.zero_stage == 3)
    refuse("zero_stage", "3 gathers whole layers, which operator_devices takes apart",
           "set it to 2 or less");
  const bool split = !p.layers_per_stage.empty() || p.first_stage_layers || p.last_stage_layers ||
                     p.embedding_in_split || p.loss_in_split;
  if (split)
    refuse("operator_devices",
           "says where everything stands: no other field of the split can "
           "stand beside it",
           "leave layers_per_stage, first_stage_layers, last_stage_layers and the *_in_split out");
}

void check_training(JsonFile& file, const TrainingPlan& plan) {
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
  if (training.mtp_layers > 0)
    refuse("mtp_layers", unknown("layers that predict further tokens"), off);
  if (plan.optimizer.orthogonalisations > 0)
    refuse("optimizer", unknown("optimizers that make whole matrices orthogonal"),
           "take another optimizer, or split by layers_per_stage");
  if (training.recompute == Recompute::Full)
    refuse("recompute", "\"full\" computes whole layers again, which operator_devices takes apart",
           "choose \"selective\" or \"none\", or split by layers_per_stage");
  if (training.recompute != Recompute::Selective) return;
  for (bool RecomputeModules::*const module :
       {&RecomputeModules::norms, &RecomputeModules::second_products})
    if (training.recompute_modules.*module)
      refuse("recompute_modules",
             fmt::format("\"{}\" computes again for an operator that may stand elsewhere",
                         word_for(kRecomputeModules, module)),
             "leave it out, or split by layers_per_stage");
}

}  // namespace

void check_operator_devices(JsonFile& file, const Scenario& scenario, const SoundSections& sound) {
  const TrainingPlan& plan = scenario.plan;
  if (!sound.parallelism || plan.parallelism.operator_devices.empty()) return;
  check_parallelism(file, plan.parallelism);
  if (sound.training) check_training(file, plan);
  const auto refuse = [&](const char* section, const char* what) {
    file.report(section, fmt::format("{} not modelled together with operator_devices", what),
                "leave one of them out");
  };
  if (plan.offload.any()) refuse("/offload", "what stands on the host is");
  if (plan.servers.servers > 0) refuse("/parameter_servers", "replicas that meet in servers are");
  if (plan.documents.drawn() && plan.documents.independent_replicas && plan.parallelism.data > 1)
    refuse("/documents/independent_replicas", "documents that differ between replicas are");
  if (!sound.model) return;
  if (plan.architecture.has_experts() && plan.experts.routing != RoutingKind::Balanced)
    refuse("/experts/routing", "uneven loads of experts are");
  try {
    (void)operator_split(plan);
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems())
      file.report(problem.pointer, problem.problem, problem.hint);
  }
}

}  // namespace trainyard
