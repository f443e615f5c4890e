#include "scenarios/run/facts.hpp"

#include "models/adapters.hpp"
#include "models/architecture/flops.hpp"
#include "models/recompute.hpp"

namespace trainyard {

namespace {

FlopsQuery flops_query(const Scenario& scenario, AttentionCount attention) {
  return {.sequences = scenario.plan.training.global_batch_size,
          .sequence_length = scenario.plan.training.sequence_length,
          .vocab = scenario.plan.vocab(),
          .attention = attention};
}

AttentionCount other(AttentionCount attention) {
  return attention == AttentionCount::Causal ? AttentionCount::Full : AttentionCount::Causal;
}

// With frozen weights the backward has no weight gradient of theirs: 4 instead of 6 FLOPs a
// parameter and token, and 6 for each of the adapters'.
Flops trained_flops(const Scenario& scenario, AttentionCount attention) {
  const TrainingPlan& plan = scenario.plan;
  const FlopsQuery query = flops_query(scenario, attention);
  const Flops all = model_flops(plan.architecture, query);
  if (plan.training.lora_rank == 0) return all;
  const TokenFlops token = token_flops(
      plan.architecture,
      {.sequence_length = query.sequence_length, .vocab = query.vocab, .attention = attention});
  const auto tokens = static_cast<double>(query.sequences * query.sequence_length);
  const auto adapters = static_cast<double>(adapter_parameters(plan.architecture, plan.training));
  return all + Flops{tokens * (6.0 * adapters - token.linear() - token.head)};
}

Flops recomputed(const Scenario& scenario, AttentionCount attention) {
  const Training& training = scenario.plan.training;
  const double share =
      training.recompute == Recompute::Full ? recomputed_layer_share(scenario.plan) : 1.0;
  return recomputed_flops(scenario.plan.architecture, flops_query(scenario, attention),
                          training.recompute, recompute_modules(training)) *
         share;
}

}  // namespace

RunFacts scenario_facts(const Scenario& scenario, const GpuSheet& gpu) {
  const TrainingPlan& plan = scenario.plan;
  RunFacts facts;
  facts.title = scenario.description;
  facts.scenario = resolved(scenario);
  facts.engine = scenario.engine;
  facts.seed = scenario.seed;
  facts.tokens_per_step =
      static_cast<double>(plan.training.global_batch_size * plan.training.sequence_length);
  facts.model_flops = trained_flops(scenario, scenario.flops_convention);
  facts.model_flops_other = trained_flops(scenario, other(scenario.flops_convention));
  facts.hardware_flops = facts.model_flops + recomputed(scenario, scenario.flops_convention);
  facts.hardware_flops_other =
      facts.model_flops_other + recomputed(scenario, other(scenario.flops_convention));
  facts.flops_convention = scenario.flops_convention == AttentionCount::Causal ? "causal" : "full";
  facts.gpu_peak = gpu.peak(plan.training.precision);
  facts.assumptions = scenario.assumptions;
  if (scenario.published) {
    facts.published_source = scenario.published->source;
    facts.published_note = scenario.published->note;
  }
  return facts;
}

std::vector<PublishedComparison> compare_published(const Scenario& scenario, const RunFacts& facts,
                                                   Seconds step_time) {
  std::vector<PublishedComparison> rows;
  if (!scenario.published) return rows;
  const Published& published = *scenario.published;
  const double gpus = static_cast<double>(scenario.plan.world());
  const FlopsPerSecond model = facts.model_flops / step_time / gpus;
  const FlopsPerSecond hardware = facts.hardware_flops / step_time / gpus;
  const auto add = [&rows](const char* figure, const char* title, const char* unit, double there,
                           double here) {
    rows.push_back(
        {.figure = figure, .title = title, .unit = unit, .published = there, .predicted = here});
  };
  if (published.step_time)
    add("step_time_s", "step time", "s", published.step_time->value(), step_time.value());
  if (published.tokens_per_s_per_gpu) {
    add("tokens_per_s_per_gpu", "tokens/s per GPU", "tokens/s", *published.tokens_per_s_per_gpu,
        facts.tokens_per_step / step_time.value() / gpus);
  }
  if (published.model_flops_per_gpu) {
    add("model_tflops_per_gpu", "model FLOP/s per GPU", "TFLOP/s",
        published.model_flops_per_gpu->value() / 1e12, model.value() / 1e12);
  }
  if (published.hardware_flops_per_gpu) {
    add("hardware_tflops_per_gpu", "hardware FLOP/s per GPU", "TFLOP/s",
        published.hardware_flops_per_gpu->value() / 1e12, hardware.value() / 1e12);
  }
  if (published.mfu) add("mfu", "MFU", "", *published.mfu, model / facts.gpu_peak);
  return rows;
}

}  // namespace trainyard
