#include "models/gradient_passes.hpp"

#include "models/framework_file.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

GradientPasses GradientPasses::with(GradientAverage own_average, GradientCheck own_check) const {
  GradientPasses chosen = *this;
  if (own_average != GradientAverage::Framework) chosen.average = own_average;
  if (own_check != GradientCheck::Framework) chosen.check = own_check;
  return chosen;
}

std::int64_t GradientPasses::scaling_bytes(std::int64_t replicas, std::int64_t width) const {
  const bool scaled = average == GradientAverage::BeforeAlways ||
                      (average == GradientAverage::Before && replicas > 1);
  return scaled ? 2 * width : 0;
}

GradientPasses load_gradient_passes(const std::string& name) {
  JsonFile file = framework_file(name);
  JsonObject root = file.root();
  // framework.hpp reads the others, and refuses strange ones.
  for (const std::string& key : root.keys())
    if (key != "gradient_passes") root.ignore(key);
  GradientPasses passes;
  if (root.has("gradient_passes")) {
    JsonObject all = root.object("gradient_passes");
    const auto truth = [&all](std::string_view key) {
      return all.has(key) && sourced(all, key).boolean("value", false);
    };
    if (truth("scaled_by_kernel")) passes.average = GradientAverage::Before;
    if (truth("checked_for_nan")) passes.check = GradientCheck::On;
    passes.unscale = truth("unscaled_by_kernel");
    passes.accumulate = truth("accumulated_by_kernel");
  }
  file.finish();
  return passes;
}

}  // namespace trainyard
