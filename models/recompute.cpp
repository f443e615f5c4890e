#include "models/recompute.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

constexpr std::array<std::pair<std::string_view, bool RecomputeModules::*>, 8> kModules = {{
    {"core_attn", &RecomputeModules::core},
    {"layernorm", &RecomputeModules::norms},
    {"mlp", &RecomputeModules::feed_forward},
    {"moe", &RecomputeModules::experts},
    {"moe_act", &RecomputeModules::expert_activation},
    {"shared_experts", &RecomputeModules::shared_experts},
    {"mla_up_proj", &RecomputeModules::latent_up},
    {"second_products", &RecomputeModules::second_products},
}};

}  // namespace

std::vector<RecomputeUnit> recompute_units(const Training& training, std::int64_t layers) {
  std::vector<RecomputeUnit> units;
  const std::int64_t n = training.recompute_num_layers;
  TY_CHECK(n > 0, n);
  const bool full = training.recompute == Recompute::Full;
  const bool grouped = full && training.recompute_method == "uniform";
  for (std::int64_t layer = 0; layer < layers;) {
    const std::int64_t count = grouped ? std::min(n, layers - layer) : 1;
    const bool again = grouped || (full && training.recompute_method == "block" && layer < n) ||
                       (full && training.recompute_method == "every" && layer % n == 0);
    units.push_back({.first = layer, .layers = count, .again = again});
    layer += count;
  }
  return units;
}

double recomputed_layer_share(const TrainingPlan& plan) {
  if (plan.training.recompute != Recompute::Full) return 0.0;
  std::int64_t all = 0;
  std::int64_t again = 0;
  for (const std::int64_t layers : layer_split(plan)) {
    for (const RecomputeUnit& unit : recompute_units(plan.training, layers)) {
      all += unit.layers;
      if (unit.again) again += unit.layers;
    }
  }
  return all == 0 ? 0.0 : static_cast<double>(again) / static_cast<double>(all);
}

std::vector<std::string> recompute_module_names() {
  std::vector<std::string> names;
  for (const auto& [name, member] : kModules) names.emplace_back(name);
  return names;
}

std::vector<std::string> recompute_method_names() { return {"uniform", "block", "every"}; }

RecomputeModules recompute_modules(const Training& training) {
  RecomputeModules modules{.core = false};
  for (const std::string& name : training.recompute_modules) {
    const auto* module = std::find_if(kModules.begin(), kModules.end(),
                                      [&](const auto& entry) { return entry.first == name; });
    TY_CHECK(module != kModules.end(), name);
    modules.*(module->second) = true;
  }
  return modules;
}

}  // namespace trainyard
