// A scenario while an importer fills it, and what all importers of configurations share: the model
// that the user names, the cluster, and the arithmetic of batches.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/import/imported_scenario.hpp"
#include "scenarios/import/launched_cluster.hpp"
#include "scenarios/import/training/config.hpp"

namespace trainyard {

// Returns the "model" section for a name in models/data, a model file or a config.json of Hugging
// Face. A file's fields are written out, so that the scenario does not depend on its place. Throws
// InputError.
[[nodiscard]] nlohmann::ordered_json model_section(const std::string& name_or_path);

// Returns the name in models/data of a model that is published on Hugging Face, such as
// "meta-llama/Llama-3.1-8B-Instruct"; nothing for other models.
[[nodiscard]] std::optional<std::string> published_model(const std::string& hugging_face_name);

class ScenarioDraft {
 public:
  ScenarioDraft(std::string description, std::string framework)
      : description_(std::move(description)), framework_(std::move(framework)) {}

  nlohmann::ordered_json model = nullptr;
  nlohmann::ordered_json parallelism = nlohmann::ordered_json::object();
  nlohmann::ordered_json training = nlohmann::ordered_json::object();
  nlohmann::ordered_json experts = nlohmann::ordered_json::object();
  nlohmann::ordered_json offload = nlohmann::ordered_json::object();

  void use_framework(std::string framework) { framework_ = std::move(framework); }
  void assume(std::string sentence) { assumed_.push_back(std::move(sentence)); }

  // Sets the cluster, and the vocabulary of the model if the user states one. Returns the number of
  // GPUs. REQUIRES: the model is set.
  std::int64_t launch(const LaunchMachine& machine, const LaunchedSizes& sizes,
                      const std::string& file);

  // Sets the microbatch and the global batch, which is micro x accumulation x replicas. A global
  // batch that the file states must be that number; `at` is its path.
  void batch(const Config& config, const std::string& at, std::int64_t micro,
             std::int64_t accumulation, std::int64_t replicas,
             std::optional<std::int64_t> stated = {});

  // Returns whether the model has experts.
  [[nodiscard]] bool has_experts() const;
  // Returns the number of nodes of the cluster. REQUIRES: launch() was called.
  [[nodiscard]] std::int64_t nodes() const { return cluster_.at("nodes").get<std::int64_t>(); }
  // Return sizes of the model.
  [[nodiscard]] std::int64_t layers() const;
  [[nodiscard]] std::int64_t hidden() const;

  // The scenario, with the values of the configuration that were not looked at.
  [[nodiscard]] ImportedScenario finish(const Config& config,
                                        std::span<const std::string_view> without_cost);

 private:
  std::string description_;
  std::string framework_;
  nlohmann::ordered_json cluster_;
  std::vector<std::string> assumed_;
};

// Returns the replicas that a world leaves for groups of `model` ranks. Throws InputError for
// `file` where the world is no multiple of it; `product` names the sizes: "tensor 8 x pipeline 4".
[[nodiscard]] std::int64_t replicas_of(std::int64_t world, std::int64_t model,
                                       const std::string& product, const std::string& file);

// Returns the product of sizes that are at least 1, at most 1e9.
[[nodiscard]] std::int64_t product_of(std::initializer_list<std::int64_t> sizes);

}  // namespace trainyard
