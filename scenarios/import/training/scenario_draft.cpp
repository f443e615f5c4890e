#include "scenarios/import/training/scenario_draft.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "scenarios/import/model_file.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// The models of models/data by their names on Hugging Face, in lower case and without the
// organisation. What follows the name ("-Instruct") trains at the same cost.
struct PublishedModel {
  std::string_view hugging_face;
  std::string_view data;
};
constexpr auto kPublishedModels = std::to_array<PublishedModel>({
    {"deepseek-v3", "deepseek-v3"},
    {"gpt-oss-120b", "gpt-oss-120b"},
    {"gpt2", "gpt2-small"},
    {"llama-2-13b", "llama2-13b"},
    {"llama-2-70b", "llama2-70b"},
    {"llama-2-7b", "llama2-7b"},
    {"llama-3-70b", "llama3-70b"},
    {"llama-3-8b", "llama3-8b"},
    {"llama-3.1-405b", "llama3-405b"},
    {"llama-3.1-70b", "llama3-70b"},
    {"llama-3.1-8b", "llama3-8b"},
    {"llama-3.3-70b", "llama3-70b"},
    {"llama-4-maverick-17b-128e", "llama4-maverick"},
    {"llama-4-scout-17b-16e", "llama4-scout"},
    {"meta-llama-3-70b", "llama3-70b"},
    {"meta-llama-3-8b", "llama3-8b"},
    {"meta-llama-3.1-405b", "llama3-405b"},
    {"meta-llama-3.1-70b", "llama3-70b"},
    {"meta-llama-3.1-8b", "llama3-8b"},
    {"mixtral-8x22b", "mixtral-8x22b"},
    {"mixtral-8x7b", "mixtral-8x7b"},
    {"qwen2.5-72b", "qwen2.5-72b"},
    {"qwen2.5-7b", "qwen2.5-7b"},
    {"qwen3-235b-a22b", "qwen3-235b-a22b"},
    {"qwen3-30b-a3b", "qwen3-30b-a3b"},
});

// These suffixes may follow the name of a model without a change of its shape.
constexpr auto kSuffixes =
    std::to_array<std::string_view>({"", "-hf", "-base", "-chat", "-chat-hf", "-instruct",
                                     "-instruct-hf", "-v0.1", "-instruct-v0.1", "-instruct-2507"});

std::string lower(std::string text) {
  for (char& letter : text)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return text;
}

}  // namespace

Json model_section(const std::string& name_or_path) {
  try {
    (void)load_model(name_or_path);  // throws for a shape that no model can have
    const bool is_file = name_or_path.ends_with(".json");
    return is_file ? model_fields(name_or_path) : Json(name_or_path);
  } catch (const InputError& error) {
    std::vector<Problem> problems = error.problems();
    for (Problem& problem : problems)
      if (problem.file.empty()) problem.file = "model " + name_or_path;
    throw InputError(std::move(problems));
  }
}

std::optional<std::string> published_model(const std::string& hugging_face_name) {
  std::string name = lower(hugging_face_name);
  while (name.ends_with('/')) name.pop_back();
  name = name.substr(name.rfind('/') + 1);  // npos + 1 is 0
  for (const PublishedModel& model : kPublishedModels) {
    if (!name.starts_with(model.hugging_face)) continue;
    // Only known suffixes may follow: gpt2-xl is not gpt2.
    const std::string_view suffix = std::string_view(name).substr(model.hugging_face.size());
    if (std::ranges::find(kSuffixes, suffix) != kSuffixes.end()) return std::string(model.data);
  }
  return {};
}

std::int64_t ScenarioDraft::launch(const LaunchMachine& machine, const LaunchedSizes& sizes,
                                   const std::string& file) {
  if (machine.vocab && !model.is_null()) {
    // The name of a model stands for its published vocabulary, so its fields are written out first.
    if (model.is_string()) model = model_fields(model.get<std::string>());
    model["vocab"] = *machine.vocab;
  }
  LaunchedCluster launched = launched_cluster(machine, sizes, file);
  cluster_ = std::move(launched.section);
  for (std::string& sentence : launched.assumed) assume(std::move(sentence));
  return launched.world;
}

void ScenarioDraft::batch(const Config& config, const std::string& at, std::int64_t micro,
                          std::int64_t accumulation, std::int64_t replicas,
                          std::optional<std::int64_t> stated) {
  const std::int64_t global = product_of({micro, accumulation, replicas});
  if (stated && *stated != global) {
    config.refuse(at,
                  fmt::format("is {}, but {} of a microbatch x {} of accumulation x {} replicas "
                              "are {}",
                              *stated, micro, accumulation, replicas, global),
                  "correct one of them");
  }
  training["micro_batch_size"] = micro;
  training["global_batch_size"] = global;
}

bool ScenarioDraft::has_experts() const {
  return model.is_string() ? load_model(model.get<std::string>()).has_experts()
                           : model.contains("experts");
}

std::int64_t ScenarioDraft::layers() const {
  if (model.is_string()) return load_model(model.get<std::string>()).layers;
  return model.at("layers").get<std::int64_t>();
}

std::int64_t ScenarioDraft::hidden() const {
  if (model.is_string()) return load_model(model.get<std::string>()).hidden;
  return model.at("hidden").get<std::int64_t>();
}

ImportedScenario ScenarioDraft::finish(const Config& config,
                                       std::span<const std::string_view> without_cost) {
  ImportedScenario made;
  for (const std::string& note : config.notes()) assume(note);
  made.scenario = {{"description", description_},
                   {"source", config.file()},
                   {"assumptions", assumed_},
                   {"framework", framework_},
                   {"model", std::move(model)},
                   {"cluster", std::move(cluster_)},
                   {"parallelism", std::move(parallelism)},
                   {"training", std::move(training)}};
  if (!experts.empty()) made.scenario["experts"] = std::move(experts);
  if (!offload.empty()) made.scenario["offload"] = std::move(offload);
  made.assumed = std::move(assumed_);
  made.not_looked_at = config.not_looked_at(without_cost);
  return made;
}

std::int64_t replicas_of(std::int64_t world, std::int64_t model, const std::string& product,
                         const std::string& file) {
  if (model <= world && world % model == 0) return world / model;
  throw InputError(
      Problem{.file = file,
              .pointer = {},
              .problem = fmt::format("{} GPUs are not divisible by {}", world, product),
              .hint = model > world ? "launch on more GPUs, or make a replica smaller"
                                    : fmt::format("launch on a multiple of {} GPUs", model)});
}

std::int64_t product_of(std::initializer_list<std::int64_t> sizes) {
  constexpr std::int64_t kMost = 1'000'000'000;
  std::int64_t product = 1;
  for (const std::int64_t size : sizes)
    product = size > kMost / std::max<std::int64_t>(product, 1) ? kMost : product * size;
  return product;
}

}  // namespace trainyard
