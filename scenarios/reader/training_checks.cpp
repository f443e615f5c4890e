#include "scenarios/reader/training_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "models/pipeline_shape.hpp"
#include "models/recompute.hpp"
#include "models/trained_weights.hpp"

namespace trainyard {

namespace {

// Which product is every second one is known of one kind of layer.
void check_second_products(JsonFile& file, const Scenario& scenario, const SoundSections& sound) {
  const Training& training = scenario.plan.training;
  const RecomputeModules& chosen = training.recompute_modules;
  const Architecture& a = scenario.plan.architecture;
  if (!chosen.second_products) return;
  const bool known = a.gated_ffn && !a.latent() && !a.has_experts() && training.lora_rank == 0;
  const bool alone = chosen == RecomputeModules{.core = false, .second_products = true};
  if (alone && (known || !sound.model)) return;
  file.report("/training/recompute_modules",
              "second_products stands alone, for dense layers with a gated feed-forward part and "
              "ordinary attention whose weights are all trained",
              "choose modules by name, or recompute \"full\"");
}

// A field that only one method reads. Where nothing is computed again as a whole, a run says that
// it has no effect: sweeps and searches leave it beside other recomputation.
void check_method_field(JsonFile& file, const Training& training, RecomputeMethod method,
                        bool given) {
  if (training.recompute != Recompute::Full) return;
  const std::string_view word = word_for(kRecomputeMethods, method);
  const std::string field = fmt::format("recompute_{}", word);
  if (given && training.recompute_method != method)
    file.report("/training/" + field,
                fmt::format("is read with recompute_method \"{}\", which here is \"{}\"", word,
                            word_for(kRecomputeMethods, training.recompute_method)),
                fmt::format("set recompute_method to \"{}\", or leave {} out", word, field));
  if (!given && training.recompute_method == method)
    file.report(
        "/training/" + field, "is missing, but recompute_method asks for it",
        fmt::format("say which {}, or choose recompute_method from uniform, block, every",
                    method == RecomputeMethod::Layers ? "layers" : "fraction of the layers"));
}

void check_listed_layers(JsonFile& file, const Scenario& scenario) {
  const Training& training = scenario.plan.training;
  const Architecture& a = scenario.plan.architecture;
  const std::int64_t layers = a.layers + training.mtp_layers;
  std::set<std::int64_t> named;
  for (std::size_t i = 0; i < training.recompute_layers.size(); ++i) {
    const std::int64_t layer = training.recompute_layers[i];
    const std::string place = fmt::format("/training/recompute_layers/{}", i);
    if (layer >= layers)
      file.report(place, fmt::format("there is no layer {} in {}", layer, a.name),
                  fmt::format("layers of the whole model are numbered 0 to {}", layers - 1));
    else if (!named.insert(layer).second)
      file.report(place, fmt::format("layer {} is listed twice", layer), "list it once");
  }
}

// A fraction, in four digits, that is one of so many layers and not a little less.
double one_of(std::int64_t layers) {
  constexpr double kDigits = 1e4;
  return std::ceil(kDigits / static_cast<double>(layers)) / kDigits;
}

}  // namespace

void check_recomputed_fraction(JsonFile& file, const Scenario& scenario) {
  const Training& training = scenario.plan.training;
  const double fraction = training.recompute_fraction.value_or(0.0);
  if (training.recompute != Recompute::Full ||
      training.recompute_method != RecomputeMethod::Fraction || fraction == 0.0)
    return;
  const std::vector<bool> again = recomputed_layers(scenario.plan);
  if (std::ranges::find(again, true) != again.end()) return;
  const std::vector<std::int64_t> split = layer_split(scenario.plan);
  const std::int64_t most = *std::ranges::max_element(split);
  file.report("/training/recompute_fraction",
              fmt::format("{} of the {} layers that a stage's chunk has at most is less than one",
                          fraction, most),
              fmt::format("give at least {}, or list layers in recompute_layers", one_of(most)));
}

void check_recomputation(JsonFile& file, const Scenario& scenario, const SoundSections& sound) {
  if (!sound.training) return;
  const Training& training = scenario.plan.training;
  check_second_products(file, scenario, sound);
  check_method_field(file, training, RecomputeMethod::Fraction,
                     training.recompute_fraction.has_value());
  check_method_field(file, training, RecomputeMethod::Layers, !training.recompute_layers.empty());
  if (sound.model) check_listed_layers(file, scenario);
}

void check_further_tokens(JsonFile& file, const Scenario& scenario, const SoundSections& sound) {
  if (!sound.training || scenario.plan.training.mtp_layers == 0) return;
  const auto refuse = [&file](const char* problem, const char* hint) {
    file.report("/training/mtp_layers", problem, hint);
  };
  if (scenario.plan.training.lora_rank > 0)
    refuse("layers that predict further tokens are trained whole, not by adapters",
           "set mtp_layers or lora_rank to 0");
  if (freezes(scenario.plan.training) || scenario.plan.offload.any())
    refuse("layers that predict further tokens are neither frozen nor offloaded with the others",
           "set mtp_layers to 0, or leave frozen weights and offload out");
  if (!sound.parallelism) return;
  const Parallelism& p = scenario.plan.parallelism;
  if (sound.model && scenario.plan.architecture.hidden % p.tensor != 0)
    refuse("has a projection whose columns do not divide among the tensor ranks",
           "choose a tensor that divides the model's hidden width");
}

void check_adapters(JsonFile& file, const Scenario& scenario, const SoundSections& sound) {
  if (!sound.training || scenario.plan.training.lora_rank == 0) return;
  const Training& training = scenario.plan.training;
  const Architecture& a = scenario.plan.architecture;
  if (!sound.model) return;
  if (a.latent())
    file.report("/training/lora_rank",
                "adapters stand on ordinary attention; this model has latent attention",
                "set lora_rank to 0, or take another model");
  else if (adapter_parameters(a, training) == 0)
    file.report(
        "/training/lora_targets",
        fmt::format("leave nothing to train: layers with experts, all of {}, have adapters on "
                    "their attention alone",
                    a.name),
        "name query, key, value or projection");
}

}  // namespace trainyard
