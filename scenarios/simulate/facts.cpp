#include "scenarios/simulate/facts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "kernels/gpu.hpp"
#include "models/architecture/flops.hpp"
#include "models/documents.hpp"
#include "models/layers/layer_block.hpp"
#include "models/power/prices.hpp"
#include "models/recompute.hpp"
#include "models/trained_weights.hpp"
#include "scenarios/reader/defaults.hpp"
#include "scenarios/simulate/approximations.hpp"
#include "scenarios/simulate/document_facts.hpp"
#include "scenarios/simulate/power.hpp"
#include "scenarios/simulate/setup_lines.hpp"

namespace trainyard {

namespace {

AttentionCount other(AttentionCount attention) {
  return attention == AttentionCount::Causal ? AttentionCount::Full : AttentionCount::Causal;
}

// Returns the share of a sequence's attention that packed documents leave: the sum of the squares
// of their lengths over the square of the sequence length, on average over the step.
double attention_share(const TrainingPlan& plan) {
  if (plan.documents.kind == DocumentKind::None) return 1.0;
  const StepDocuments documents(plan);
  double squares = 0.0;
  double sequences = 0.0;
  for (std::int64_t replica = 0; replica < plan.parallelism.data; ++replica) {
    for (std::int64_t microbatch = 0; microbatch < plan.microbatches(); ++microbatch) {
      for (const std::int64_t length : documents.of({.microbatch = microbatch, .replica = replica}))
        squares += static_cast<double>(length) * static_cast<double>(length);
      sequences += static_cast<double>(plan.training.micro_batch_size);
    }
  }
  const auto whole = static_cast<double>(plan.training.sequence_length);
  return squares / (sequences * whole * whole);
}

// Returns the FLOPs of one layer's forward for a token; packed documents leave `share` of its
// attention.
double forward_flops(const LayerFlops& layer, double share) {
  return layer.matrices + share * layer.attention;
}

// Returns the parameters of the adapters of a layer that is not frozen.
double parameters_of_adapters(const TrainingPlan& plan, std::int64_t layer) {
  double parameters = 0.0;
  for (const Adapter& adapter :
       layer_adapters(plan.architecture, plan.training, 1, layer_kind(plan.architecture, layer)))
    parameters += static_cast<double>(adapter.parameters());
  return parameters;
}

TokenQuery token_query(const Scenario& scenario, AttentionCount attention) {
  return {.sequence_length = scenario.plan.training.sequence_length,
          .vocab = scenario.plan.vocab(),
          .attention = attention,
          .mtp_layers = scenario.plan.training.mtp_layers};
}

double tokens_of_step(const TrainingPlan& plan) {
  return static_cast<double>(plan.training.global_batch_size * plan.training.sequence_length *
                             plan.workers());
}

// Forward: 2 FLOPs per parameter and token. Backward: as much for the gradient of the input, where
// a gradient is needed below, and as much for the gradient of the weight, where the weight is
// trained. Adapters add theirs. Attention has no weights, so its backward takes twice its forward.
Flops trained_flops(const Scenario& scenario, AttentionCount convention) {
  const TrainingPlan& plan = scenario.plan;
  const TokenFlops token = token_flops(plan.architecture, token_query(scenario, convention));
  const bool plain = plan.training.lora_rank == 0 && !freezes(plan.training) &&
                     plan.documents.kind == DocumentKind::None;
  if (plain) return Flops{tokens_of_step(plan) * token.train()};
  const double share = attention_share(plan);
  const bool adapted = plan.training.lora_rank > 0;
  const TrainedWeights weights = trained_weights(plan);
  double sum = token.head * (weights.head ? 3.0 : 2.0) + 3.0 * token.projection;
  std::int64_t layer = 0;
  for (const LayerFlops& flops : token.layers) {
    const double linear = flops.matrices;
    const double core = share * flops.attention;
    sum += forward_flops(flops, share);
    if (weights.reaches(layer)) sum += linear + 2.0 * core;
    // A parameter of an adapter takes 2 FLOPs forward and 4 backward.
    if (weights.layer(layer)) sum += adapted ? 6.0 * parameters_of_adapters(plan, layer) : linear;
    ++layer;
  }
  return Flops{sum * tokens_of_step(plan)};
}

// Returns the forward FLOPs that the backward repeats: parts of layers that it reaches, or whole
// ones.
Flops recomputed(const Scenario& scenario, AttentionCount attention) {
  const TrainingPlan& plan = scenario.plan;
  const Training& training = plan.training;
  if (training.recompute == Recompute::None) return Flops{0.0};
  const bool full = training.recompute == Recompute::Full;
  const TokenFlops token = repeated_flops(plan.architecture, token_query(scenario, attention),
                                          training.recompute, training.recompute_modules);
  const double share = attention_share(plan);
  const TrainedWeights weights = trained_weights(plan);
  const std::vector<bool> whole = repeated_layers(plan);
  double sum = 0.0;
  for (std::size_t i = 0; i < token.layers.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    if (full ? !whole[i] : !weights.reaches(layer)) continue;
    sum += forward_flops(token.layers[i], share);
    if (full && weights.layer(layer)) sum += 2.0 * parameters_of_adapters(plan, layer);
  }
  return Flops{sum * tokens_of_step(plan)};
}

// The GPUs of a cluster, counted by their profile.
using GpuCounts = std::map<std::string, std::size_t>;
GpuCounts gpus_by_profile(const Cluster& cluster) {
  GpuCounts counts;
  for (const GpuKind& kind : cluster.facts().mixed_gpus) ++counts[kind.profile];
  if (counts.empty()) counts[cluster.facts().gpu] = cluster.gpus().size();
  return counts;
}

// Returns the mean over the GPUs of what `value` says of their profiles.
template <class Value>
double mean_over_gpus(const GpuCounts& counts, const Value& value) {
  if (counts.size() == 1) return value(counts.begin()->first);
  double sum = 0.0;
  double gpus = 0.0;
  for (const auto& [gpu, count] : counts) {
    sum += value(gpu) * static_cast<double>(count);
    gpus += static_cast<double>(count);
  }
  return sum / gpus;
}

// Returns the peak of the cluster's GPU, or the mean over its GPUs where they differ.
FlopsPerSecond mean_peak(const Cluster& cluster,
                         const std::function<FlopsPerSecond(const GpuSheet&)>& peak) {
  return FlopsPerSecond{mean_over_gpus(gpus_by_profile(cluster), [&](const std::string& gpu) {
    return peak(load_gpu_sheet(gpu)).value();
  })};
}

// The peak at the precision of the training, and that of the recipe's GEMMs where it differs.
std::vector<PeakRate> peaks_of(const TrainingPlan& plan, const Cluster& cluster) {
  const auto row = [&](DataType precision) {
    return PeakRate{std::string(to_string(precision)),
                    mean_peak(cluster, [&](const GpuSheet& gpu) { return gpu.peak(precision); })};
  };
  std::vector<PeakRate> peaks{row(plan.training.precision)};
  const Recipe& recipe = plan.recipe;
  if (recipe.four_bit_gemms) {
    peaks.push_back({"fp4", mean_peak(cluster, [](const GpuSheet& gpu) { return gpu.fp4; })});
  } else if (recipe.gemms && *recipe.gemms != plan.training.precision) {
    peaks.push_back(row(*recipe.gemms));
  }
  return peaks;
}

// Adds the mean price of the cluster's GPUs, and the presets that it comes from. Nothing is added
// where one of them has no price.
void add_gpu_prices(const PowerSettings& power, const Cluster& cluster, RunFacts& facts) {
  const GpuCounts counts = gpus_by_profile(cluster);
  std::map<std::string, double> prices;
  for (const auto& [gpu, count] : counts)
    if (const std::optional<double> price = price_of_gpu_hour(power, gpu)) prices[gpu] = *price;
  if (prices.size() < counts.size()) return;
  facts.gpu_hour_price = mean_over_gpus(counts, [&](const auto& gpu) { return prices.at(gpu); });
  std::vector<std::string> sources;
  for (const PublishedPrice& preset : price_presets(power))
    if (counts.contains(preset.gpu))
      sources.push_back(counts.size() == 1 ? preset.text()
                                           : fmt::format("{}: {}", preset.gpu, preset.text()));
  facts.gpu_hour_price_source = fmt::format("{}", fmt::join(sources, "; "));
}

// Names lengths and balance as the scenario does.
void name_documents(RunFacts& facts) {
  const auto& section = facts.scenario.at("documents");
  const std::string kind = section.at("kind");
  facts.documents->lengths =
      kind == "preset" ? "preset " + section.at("preset").get<std::string>() : kind;
  facts.documents->balance = section.at("balance");
}

}  // namespace

// Adds prices, and what is assumed about the power of the cluster's GPUs.
void add_power(const PowerSettings& power, const Cluster& cluster, RunFacts& facts) {
  add_gpu_prices(power, cluster, facts);
  facts.energy_prices = {.per_kwh = power.price_per_kwh,
                         .kg_co2_per_kwh = power.kg_co2_per_kwh,
                         .capital_per_gpu = power.capital_per_gpu,
                         .capital_years = power.capital_years};
  for (std::string& sentence : power_assumptions(cluster))
    facts.assumptions.push_back(std::move(sentence));
}

// The facts that are known before the run. with_run() adds those that the run determines.
RunFacts scenario_facts(const Scenario& scenario, const Cluster& cluster, bool described) {
  const TrainingPlan& plan = scenario.plan;
  RunFacts facts;
  facts.title = scenario.description;
  if (described) {
    facts.setup = setup_lines(scenario, cluster);
    facts.scenario = resolved(scenario);
  }
  facts.engine = scenario.engine;
  facts.seed = scenario.seed;
  facts.steps = plan.servers.servers > 0 ? static_cast<double>(plan.servers.steps) : 1.0;
  facts.tokens_per_step = tokens_of_step(plan);
  facts.model_flops = trained_flops(scenario, scenario.flops_convention);
  facts.model_flops_other = trained_flops(scenario, other(scenario.flops_convention));
  facts.hardware_flops = facts.model_flops + recomputed(scenario, scenario.flops_convention);
  facts.hardware_flops_other =
      facts.model_flops_other + recomputed(scenario, other(scenario.flops_convention));
  facts.flops_convention = scenario.flops_convention == AttentionCount::Causal ? "causal" : "full";
  facts.peaks = peaks_of(plan, cluster);
  facts.documents = document_facts(plan);
  if (facts.documents && described) name_documents(facts);
  facts.assumptions = scenario.assumptions;
  if (scenario.power) add_power(*scenario.power, cluster, facts);
  facts.defaults = default_sentences(scenario.applied_defaults);
  if (scenario.published) {
    facts.published_source = scenario.published->source;
    facts.published_note = scenario.published->note;
  }
  facts.approximations = plan_approximations(scenario);
  for (Approximation& found : cluster_approximations(cluster))
    facts.approximations.push_back(std::move(found));
  return facts;
}

// The estimate covers the resolved scenario, some tens of kilobytes, which takes most of the
// memory.
std::size_t footprint(const RunFacts& /*facts*/) {
  constexpr std::size_t kResolvedScenario = 65'536;
  return kResolvedScenario;
}

RunFacts with_run(RunFacts facts, const Cluster& cluster, const Timeline& timeline,
                  const std::vector<Approximation>& of_fold,
                  const std::vector<Approximation>& of_costs) {
  if (facts.engine == "simgrid") facts.engine_version = "SimGrid " TRAINYARD_SIMGRID_VERSION;
  facts.gpu_memory = cluster.facts().gpu_memory;
  for (const auto& found : {of_fold, engine_approximations(timeline), of_costs})
    facts.approximations.insert(facts.approximations.end(), found.begin(), found.end());
  return facts;
}

std::vector<PublishedComparison> compare_published(const Scenario& scenario, const RunFacts& facts,
                                                   Seconds step_time) {
  std::vector<PublishedComparison> rows;
  if (!scenario.published) return rows;
  const Published& published = *scenario.published;
  const auto gpus = static_cast<double>(scenario.plan.world());
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
  if (published.mfu) add("mfu", "MFU", "", *published.mfu, model / facts.peaks.front().rate);
  return rows;
}

void Stopwatch::record(RunFacts& facts) const {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  facts.wall_s = elapsed.count();
  facts.peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace trainyard
