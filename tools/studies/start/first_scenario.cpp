#include "tools/studies/start/first_scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "models/architecture/architecture.hpp"
#include "models/architecture/published_batch.hpp"
#include "scenarios/import/imported_node.hpp"
#include "scenarios/import/model_file.hpp"
#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/base/nearest.hpp"
#include "sim/report/stage_summary.hpp"
#include "topologies/cluster_reader.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// The sequence length of Llama 3's training (Grattafiori et al. 2024, arXiv 2407.21783, section
// 3.4.1).
constexpr std::int64_t kUsualSequence = 8192;

// Where the layers alone do not divide over the stages, the embedding and the loss count as a layer
// each: the 126 layers of Llama 3 405B over 16 stages.
void split_layers(Json& parallelism, std::int64_t layers, std::int64_t stages) {
  if (layers % stages == 0 || (layers + 2) % stages != 0) return;
  parallelism["embedding_in_split"] = true;
  parallelism["loss_in_split"] = true;
}

Json document_of(const FirstQuestion& question, const FirstLayout& layout, std::int64_t gpus,
                 std::int64_t layers) {
  const std::int64_t data = gpus / (layout.tensor * layout.pipeline);
  Json cluster{{"node", question.node}, {"nodes", question.nodes}};
  if (question.nodes > 1) cluster["fabric"] = {{"kind", "rail_optimized"}};
  Json parallelism{{"tensor", layout.tensor},
                   {"sequence_parallel", layout.tensor > 1},
                   {"pipeline", layout.pipeline},
                   {"data", data},
                   {"zero_stage", layout.zero_stage}};
  if (layout.expert > 1) parallelism["expert"] = layout.expert;
  split_layers(parallelism, layers, layout.pipeline);
  return {{"model", question.model},
          {"cluster", std::move(cluster)},
          {"parallelism", std::move(parallelism)},
          {"training",
           {{"sequence_length", question.sequence},
            {"micro_batch_size", 1},
            {"global_batch_size", question.batch},
            {"recompute", layout.recompute}}}};
}

// The largest number of ranks of a node, among powers of two, that divides both the experts and the
// replicas evenly.
std::int64_t expert_ranks(std::int64_t experts, std::int64_t replicas, std::int64_t most) {
  std::int64_t ranks = 1;
  while (2 * ranks <= most && experts % (2 * ranks) == 0 && replicas % (2 * ranks) == 0) ranks *= 2;
  return ranks;
}

std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t most) {
  std::vector<std::int64_t> all;
  for (std::int64_t divisor = 1; divisor <= std::min(number, most); ++divisor)
    if (number % divisor == 0) all.push_back(divisor);
  return all;
}

std::int64_t largest_divisor(std::int64_t number, std::int64_t most) {
  return divisors(number, most).back();
}

// All candidate layouts, in the order of their communication: optimizer state sharded alone first,
// then gradients too (ZeRO 2), then weights (ZeRO 3); less tensor x pipeline parallelism first; for
// an equal product, less recomputation, then fewer stages. The sort is stable and keeps the order
// of the loops among equal products. As in a search, stages of a pipeline shard no more than the
// optimizer state.
std::vector<FirstLayout> layouts(std::int64_t gpus, std::int64_t gpus_per_node,
                                 const Architecture& model) {
  std::vector<FirstLayout> all;
  const auto add = [&](FirstLayout layout) {
    const std::int64_t ranks = layout.tensor * layout.pipeline;
    const bool shards_more = layout.zero_stage > 1;
    if (gpus % ranks != 0 || (shards_more && (layout.pipeline > 1 || gpus == ranks))) return;
    if (model.experts > 0)
      layout.expert = expert_ranks(model.experts, gpus / ranks, gpus_per_node / layout.tensor);
    all.push_back(std::move(layout));
  };
  // The embedding and the loss may count as layers.
  const std::vector<std::int64_t> pipelines = divisors(gpus, model.layers + 2);
  for (const std::int64_t zero_stage : {1, 2, 3})
    for (const char* recompute : {"none", "selective", "full"})
      for (const std::int64_t pipeline : pipelines)
        for (const std::int64_t tensor : divisors(gpus_per_node, gpus_per_node))
          add({.tensor = tensor,
               .pipeline = pipeline,
               .zero_stage = zero_stage,
               .recompute = recompute});
  std::ranges::stable_sort(all, {}, [](const FirstLayout& layout) {
    return std::pair(layout.zero_stage, layout.tensor * layout.pipeline);
  });
  return all;
}

// The first layout that is legal and fits in memory, else the first that is legal.
FirstScenario first_that_fits(const FirstQuestion& question, const ClusterFacts& facts,
                              const Architecture& model) {
  const auto gpus = static_cast<std::int64_t>(facts.nodes) * facts.gpus_per_node;
  std::optional<InputError> refused;
  std::optional<FirstScenario> legal;
  for (const FirstLayout& layout : layouts(gpus, facts.gpus_per_node, model)) {
    const Json document = document_of(question, layout, gpus, model.layers);
    try {
      const Result run = simulate(read_scenario_document(question.name, document), {});
      const FirstScenario scenario{.document = document,
                                   .layout = layout,
                                   .gpus = gpus,
                                   .step_time_s = run.view().step_s(),
                                   .fits = everything_fits(run.view())};
      if (scenario.fits) return scenario;
      if (!legal) legal = scenario;
    } catch (const InputError& error) {
      refused = error;  // illegal for this model; the next layout may be legal
    }
  }
  // Where no layout is legal, the reason lies in the model or in the numbers of GPUs, and the last
  // refusal names it. Where some were simulated, memory was the obstacle.
  if (!legal) throw InputError(refused.value());
  return *legal;
}

// Builds the cluster alone, because the layout is not known yet.
ClusterFacts facts_of(const FirstQuestion& question) {
  JsonFile json =
      JsonFile::parse(question.name, document_of(question, {}, question.nodes, 1).dump());
  JsonObject root = json.root();
  const ClusterSpec spec = read_cluster(root.object("cluster"));
  for (const std::string& key : root.keys())
    if (key != "cluster") root.ignore(key);
  json.finish();
  return build_cluster(spec).facts();
}

// The batch of published runs with a model of this size, as a number of sequences for these GPUs.
std::int64_t usual_batch(const FirstQuestion& question, const Architecture& model,
                         std::int64_t gpus) {
  const double tokens = published_tokens(static_cast<double>(parameter_count(model)));
  return sequences_of_step({.tokens = tokens, .sequence_length = question.sequence, .gpus = gpus});
}

}  // namespace

std::int64_t usual_sequence(const std::string& model) {
  const std::int64_t most = load_model(model).max_positions;
  return most <= 0 ? kUsualSequence : std::min(kUsualSequence, most);
}

FirstScenario first_guess(FirstQuestion question) {
  const Architecture model = load_model(question.model);
  if (question.sequence == 0) question.sequence = usual_sequence(question.model);
  const ClusterFacts facts = facts_of(question);
  if (question.batch == 0)
    question.batch = usual_batch(question, model, std::int64_t{facts.nodes} * facts.gpus_per_node);
  return first_that_fits(question, facts, model);
}

FirstScenario first_scenario(FirstQuestion question) {
  const std::string model = question.model;
  FirstScenario guess = first_guess(std::move(question));
  if (!guess.fits) refuse_unfitting(model, guess.gpus);
  return guess;
}

void refuse_unfitting(const std::string& model, std::int64_t gpus) {
  throw RunError(
      fmt::format("no layout of {} on {} GPUs fits their memory: take more nodes, or shorter "
                  "sequences",
                  model, gpus));
}

std::string known_model(const std::string& name) {
  JsonFile file = JsonFile::read(data_file("models/hub", "names"));
  JsonObject root = file.root();
  JsonObject names = root.object("names");
  if (names.has(name)) return names.text(name);
  const bool names_a_file = name.ends_with(".json") || std::filesystem::exists(name);
  if (std::count(name.begin(), name.end(), '/') == 1 && !names_a_file)
    throw InputError(Problem{
        .file = "--model",
        .pointer = {},
        .problem = fmt::format("\"{}\" is not one of the models on Hugging Face known here", name),
        .hint = fmt::format("{}; any other model runs by the path of its config.json",
                            suggestion(name, names.keys()))});
  return name;
}

NodesOfGpus nodes_of_gpus(const std::string& gpu, std::int64_t gpus) {
  const NodeSpec node = node_with_gpu(gpu, "--gpu");
  const std::int64_t whole = node.gpus;
  if (gpus >= whole) {
    if (gpus % whole == 0) return {.node = node.name, .nodes = gpus / whole};
    throw InputError(Problem{
        .file = "--gpus",
        .pointer = {},
        .problem = fmt::format("{} GPUs are not whole nodes of {} ({})", gpus, whole, node.name),
        .hint = fmt::format("use {} or {}", gpus / whole * whole, (gpus / whole + 1) * whole)});
  }
  // A part of one node, with its share of the NICs. What several GPUs share divides them evenly.
  const auto shared = [&](std::int64_t most) {
    return largest_divisor(gpus, std::max<std::int64_t>(1, most));
  };
  return {.node = {{"like", node.name},
                   {"gpus", gpus},
                   {"nic", {{"count", shared(node.nics * gpus / whole)}}},
                   {"pcie", {{"gpus_per_switch", shared(node.gpus_per_pcie_switch)}}},
                   {"cpu", {{"gpus_per_cpu", shared(node.gpus_per_cpu)}}}},
          .nodes = 1};
}

}  // namespace trainyard
