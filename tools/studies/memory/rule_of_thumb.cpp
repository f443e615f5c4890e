#include "tools/studies/memory/rule_of_thumb.hpp"

#include <fmt/format.h>

#include <cmath>

#include "sim/base/check.hpp"

namespace trainyard {

RuleOfThumb rule_of_thumb(double parameters, double gpu_gigabytes) {
  TY_CHECK(gpu_gigabytes > 0.0, gpu_gigabytes);
  constexpr double kBytesPerParameter = 18.0;
  constexpr double kActivations = 1.25;
  const double gpus = parameters / 1e9 * kBytesPerParameter * kActivations / gpu_gigabytes;
  return {.gpus = gpus, .whole_gpus = static_cast<std::int64_t>(std::ceil(gpus))};
}

std::string rule_of_thumb_line(const TrainingPlan& plan, Bytes gpu_memory) {
  constexpr double kGib = 1073741824.0;
  const double parameters = static_cast<double>(parameter_count(plan.architecture));
  const double gigabytes = std::round(gpu_memory.value() / kGib);
  if (gigabytes <= 0.0) return "";
  const RuleOfThumb rule = rule_of_thumb(parameters, gigabytes);
  return fmt::format(
      "rule of thumb: {:.1f} billion parameters x 18 bytes x 1.25 / {:.0f} GB = {:.1f}, so {} "
      "GPUs; this plan has {}\n",
      parameters / 1e9, gigabytes, rule.gpus, rule.whole_gpus, plan.world());
}

}  // namespace trainyard
