#include "scenarios/reader/gpu_checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernels/gpu.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

struct PlacedGpu {
  std::string pointer;
  std::string profile;
};

void add_node(const NodeSpec& node, const std::string& pointer, std::vector<PlacedGpu>& gpus) {
  gpus.push_back({pointer + "/gpu", node.gpu});
  for (std::size_t i = 0; i < node.other_gpus.size(); ++i)
    gpus.push_back(
        {fmt::format("{}/other_gpus/{}/gpu", pointer, i), node.other_gpus[i].kind.profile});
}

std::vector<PlacedGpu> gpus_of(const ClusterSpec& cluster) {
  std::vector<PlacedGpu> gpus;
  add_node(cluster.node, cluster.custom ? "/cluster" : "/cluster/node", gpus);
  for (std::size_t i = 0; i < cluster.others.size(); ++i)
    add_node(cluster.others[i].node, fmt::format("/cluster/others/{}/node", i), gpus);
  if (cluster.custom)
    for (const GpuKind& kind : cluster.custom->kinds)
      gpus.push_back({"/cluster/devices", kind.profile});
  return gpus;
}

// The place itself, or what of it stands in this file: a node may be named.
std::string written(JsonFile& file, std::string pointer) {
  while (!pointer.empty() &&
         !file.document().contains(nlohmann::ordered_json::json_pointer(pointer)))
    pointer.resize(pointer.rfind('/'));
  return pointer;
}

std::optional<GpuSheet> sheet_of(JsonFile& file, const PlacedGpu& gpu) {
  try {
    return load_gpu_sheet(gpu.profile);
  } catch (const InputError& error) {
    for (Problem problem : error.problems()) {
      const bool own_file = !problem.pointer.empty();  // what is wrong inside the profile
      if (!own_file) {
        if (problem.file.empty())
          problem.hint += "; or the path of a profile of your own, as kernels/README.md tells";
        else
          problem.problem = fmt::format("\"{}\": {}", problem.file, problem.problem);
        problem.file = file.name();
        problem.pointer = written(file, gpu.pointer);
      }
      file.report(std::vector{problem});
    }
    return {};
  }
}

// The types that a GPU's data sheet has a rate for.
std::vector<std::string_view> known_types(const GpuSheet& sheet) {
  std::vector<std::string_view> names;
  for (const DataType dtype : {DataType::Fp32, DataType::Bf16, DataType::Fp16, DataType::Fp8})
    if (sheet.peak(dtype).value() > 0.0) names.push_back(to_string(dtype));
  return names;
}

void check_type(JsonFile& file, const GpuSheet& sheet, std::optional<DataType> dtype,
                const char* pointer) {
  if (!dtype || sheet.peak(*dtype).value() > 0.0) return;
  file.report(
      pointer, fmt::format("{} has no {}", sheet.title, to_string(*dtype)),
      fmt::format("choose a precision it multiplies: {}", fmt::join(known_types(sheet), ", ")));
}

void check_types(JsonFile& file, const GpuSheet& sheet, const TrainingPlan& plan) {
  constexpr const char* kRecipe = "/training/recipe";
  const Recipe& recipe = plan.recipe;
  check_type(file, sheet, plan.training.precision, "/training/precision");
  check_type(file, sheet, recipe.products, kRecipe);
  if (recipe.attention != recipe.products) check_type(file, sheet, recipe.attention, kRecipe);
  if (!recipe.four_bit_products || sheet.fp4.value() > 0.0) return;
  const bool eight = sheet.fp8.value() > 0.0;
  file.report(kRecipe, sheet.title + " multiplies nothing in 4 bits",
              eight ? "choose a recipe with 8-bit products, such as fp8_cached"
                    : "choose a recipe of the training's own precision, such as standard");
}

}  // namespace

void check_gpu_profiles(JsonFile& file, const Scenario& scenario, const SoundSections& sound) {
  std::set<std::string> seen;
  for (const PlacedGpu& gpu : gpus_of(scenario.cluster)) {
    if (!seen.insert(gpu.profile).second) continue;
    const std::optional<GpuSheet> sheet = sheet_of(file, gpu);
    if (sheet && sound.training) check_types(file, *sheet, scenario.plan);
  }
}

}  // namespace trainyard
