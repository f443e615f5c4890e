#include "scenarios/training_checks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/adapters.hpp"
#include "models/recompute.hpp"

namespace trainyard {

void check_recomputation(JsonFile& file, const Scenario& scenario, const SoundSections& sound) {
  if (!sound.training) return;
  const Training& training = scenario.plan.training;
  const std::vector<std::string> known = recompute_module_names();
  const std::vector<std::string>& chosen = training.recompute_modules;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (std::find(known.begin(), known.end(), chosen[i]) != known.end()) continue;
    file.report(fmt::format("/training/recompute_modules/{}", i),
                fmt::format("there is no module \"{}\" to compute again", chosen[i]),
                fmt::format("choose from {}", fmt::join(known, ", ")));
  }
  const bool grouped = training.recompute == Recompute::Full &&
                       training.recompute_method == "uniform" && training.recompute_num_layers > 1;
  if (!sound.parallelism || scenario.plan.parallelism.zero_stage < 3 || !grouped) return;
  file.report("/training/recompute_num_layers",
              "a group of layers that is computed again at once needs all their weights, "
              "which zero_stage 3 gathers layer by layer",
              "set recompute_num_layers to 1");
}

void check_adapters(JsonFile& file, const Scenario& scenario, const SoundSections& sound) {
  if (!sound.training || scenario.plan.training.lora_rank == 0) return;
  const Training& training = scenario.plan.training;
  const std::vector<std::string> known = adapter_target_names();
  const std::vector<std::string>& chosen = training.lora_targets;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (std::find(known.begin(), known.end(), chosen[i]) != known.end()) continue;
    file.report(fmt::format("/training/lora_targets/{}", i),
                fmt::format("there is no matrix \"{}\" to adapt", chosen[i]),
                fmt::format("choose from {}", fmt::join(known, ", ")));
  }
  const bool dense =
      !scenario.plan.architecture.has_experts() && !scenario.plan.architecture.latent();
  if (sound.model && !dense) {
    file.report("/training/lora_rank",
                "adapters stand on dense layers with ordinary attention; this model has "
                "experts or latent attention",
                "set lora_rank to 0, or take a dense model");
  }
  if (sound.parallelism && scenario.plan.parallelism.zero_stage > 2) {
    file.report("/training/lora_rank",
                "the frozen weights are held whole, which zero_stage 3 does not do",
                "set zero_stage to 2 or less");
  }
}

}  // namespace trainyard
