#include "scenarios/reader/split_checks.hpp"

#include <fmt/format.h>

#include <numeric>

#include "models/pipeline_shape.hpp"
#include "models/trained_weights.hpp"

namespace trainyard {

void check_frozen(JsonFile& file, const Scenario& scenario, const SoundSections& sound) {
  const TrainingPlan& plan = scenario.plan;
  if (!sound.training || !sound.model || !freezes(plan.training)) return;
  const std::int64_t layers = plan.architecture.layers;
  for (std::size_t i = 0; i < plan.training.frozen_layers.size(); ++i) {
    const std::int64_t layer = plan.training.frozen_layers[i];
    if (layer < layers) continue;
    file.report(fmt::format("/training/frozen_layers/{}", i),
                fmt::format("there is no layer {} in {}", layer, plan.architecture.name),
                fmt::format("layers are numbered 0 to {}", layers - 1));
  }
  if (trained_weights(plan).first > layers)
    file.report("/training/frozen_layers", "leaves nothing to train",
                "leave a layer, the embedding or the head out of what is frozen");
  const bool ends_differ = plan.training.frozen_embedding != plan.training.frozen_head;
  if (plan.architecture.tied_embeddings && ends_differ && plan.training.lora_rank == 0)
    file.report("/training/frozen_embedding",
                fmt::format("{} has one matrix for embedding and head, which is trained or not",
                            plan.architecture.name),
                "set frozen_embedding and frozen_head alike");
}

namespace {

void check_lengths(JsonFile& file, const TrainingPlan& plan) {
  const Documents& documents = plan.documents;
  const std::int64_t sum =
      std::accumulate(documents.lengths.begin(), documents.lengths.end(), std::int64_t{0});
  if (documents.kind == DocumentKind::List && sum != plan.training.sequence_length)
    file.report(
        "/documents/lengths",
        fmt::format("add up to {} tokens; a sequence has {}", sum, plan.training.sequence_length),
        "list every document of a sequence, padding included");
  if (documents.drawn() && documents.mean_length < 1)
    file.report("/documents/mean_length", "is missing, but lengths are drawn",
                "give the mean length of a document in tokens");
}

}  // namespace

void check_documents(JsonFile& file, const Scenario& scenario, const SoundSections& sound) {
  const TrainingPlan& plan = scenario.plan;
  if (!file.is_sound("/documents") || plan.documents.kind == DocumentKind::None) return;
  if (sound.training) {
    check_lengths(file, plan);
    if (plan.training.attention != AttentionKind::Flash)
      file.report("/documents/kind", "only the fused attention kernel skips other documents",
                  "set /training/attention to \"flash\"");
  }
  if (sound.model && plan.architecture.window > 0)
    file.report("/documents/kind", "attention within a window is not lowered for packed documents",
                "set /model/window to 0, or leave /documents out");
  if (sound.parallelism && plan.documents.drawn() && plan.documents.independent_replicas &&
      plan.parallelism.data > 1 && plan.servers.servers > 0)
    file.report("/documents/independent_replicas",
                "replicas cannot read other documents beside parameter servers", "set it to false");
}

void check_servers(JsonFile& file, const Scenario& scenario, const SoundSections& sound) {
  const TrainingPlan& plan = scenario.plan;
  if (!file.is_sound("/parameter_servers") || plan.servers.servers == 0 || !sound.parallelism)
    return;
  const Parallelism& p = plan.parallelism;
  const auto refuse = [&](const char* field, const std::string& problem, const std::string& hint) {
    file.report(std::string("/parameter_servers/") + field, problem, hint);
  };
  if (p.tensor * p.context * p.pipeline > 1 || p.zero_stage > 0)
    refuse("servers", "workers hold the whole model, and nothing of it is sharded",
           "leave all of /parallelism but data out");
  if (!p.placement.empty())
    refuse("servers", "worker i is on GPU i, the servers on the first GPUs or behind the workers",
           "leave /parallelism/placement out");
  if (!plan.servers.dedicated && plan.servers.servers > p.data)
    refuse("servers",
           fmt::format("{} servers on the GPUs of {} workers", plan.servers.servers, p.data),
           "set dedicated to true, or have fewer");
  if (sound.model && plan.architecture.has_experts())
    refuse("servers", "experts that servers hold are not modelled", "take a dense model");
  if (plan.offload.any())
    refuse("servers", "is not modelled together with /offload", "leave one of them out");
  if (scenario.collective_model == CollectiveModel::Stepwise)
    refuse("servers", "messages are all there is: nothing can be played step by step",
           "set /collective_model to \"fluid\"");
}

namespace {

void check_offloaded_weights(JsonFile& file, const TrainingPlan& plan) {
  const auto refuse = [&](const std::string& problem, const std::string& hint) {
    file.report("/offload/weights", problem, hint);
  };
  const Parallelism& p = plan.parallelism;
  if (p.zero_stage == 1 || p.zero_stage == 2)
    refuse(fmt::format("zero_stage {} gathers new weights among the GPUs, which keep them",
                       p.zero_stage),
           "set /parallelism/zero_stage to 0 or 3, or weights to false");
  if (p.zero_stage == 3 && p.context * p.shard_size() == 1)
    refuse("zero_stage 3 fetches shards, and one rank has no shards",
           "set /parallelism/zero_stage to 0, or shard to more than 1");
}

}  // namespace

void check_offload(JsonFile& file, const Scenario& scenario, const SoundSections& sound) {
  const TrainingPlan& plan = scenario.plan;
  if (!file.is_sound("/offload") || !plan.offload.any()) return;
  if (file.is_sound("/cluster") && plan.offload.optimizer == OffloadedOptimizer::Cpu &&
      plan.host.bandwidth.value() <= 0.0)
    file.report("/offload/optimizer",
                fmt::format("nothing is known of the memory of {}'s CPUs, which sets their pace",
                            scenario.cluster.node.name),
                "give the node \"host_memory\": {\"usable\", \"bandwidth\"}, or choose \"fetch\"");
  if (plan.offload.optimizer != OffloadedOptimizer::None && plan.optimizer.orthogonalisations > 0)
    file.report("/offload/optimizer",
                fmt::format("{} makes whole matrices orthogonal, which pieces of state cannot",
                            plan.training.optimizer),
                "set it to \"none\", or take another optimizer");
  if (sound.parallelism && plan.offload.weights) check_offloaded_weights(file, plan);
}

void check_reduction_order(JsonFile& file, const Scenario& scenario, const Schedule& schedule) {
  const TrainingPlan& plan = scenario.plan;
  if (schedule.placement() != StagePlacement::Bidirectional ||
      !plan.parallelism.overlap_grad_reduce)
    return;
  const PipelineShape shape = pipeline_shape(plan);
  if (const auto fault = check_reductions(all_steps(schedule, shape), shape))
    file.report("/parallelism/schedule", *fault,
                "end the last backwards of both ranks in one order of stages, or set "
                "overlap_grad_reduce to false");
}

}  // namespace trainyard
