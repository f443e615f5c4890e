#include "models/recompute.hpp"

#include <algorithm>
#include <cmath>

#include "models/pipeline_shape.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// Number of layers of a fraction, rounded down. The tolerance makes a fraction that was written as
// k / n of n layers give k, in spite of floating-point rounding.
std::int64_t layers_of_fraction(double fraction, std::int64_t layers) {
  constexpr double kRounding = 1e-9;
  return static_cast<std::int64_t>(std::floor(fraction * static_cast<double>(layers) + kRounding));
}

// The layers of a chunk that are recomputed as a whole.
std::vector<bool> chosen_layers(const Training& training, const LayerSpan& span) {
  const std::int64_t count = span.layers + span.mtp_layers;
  std::vector<bool> chosen(static_cast<std::size_t>(count), false);
  if (training.recompute != Recompute::Full) return chosen;
  const RecomputeMethod method = training.recompute_method;
  if (method == RecomputeMethod::Layers) {
    for (const std::int64_t layer : training.recompute_layers)
      if (layer >= span.first && layer < span.first + count)
        chosen[static_cast<std::size_t>(layer - span.first)] = true;
    return chosen;
  }
  const std::int64_t n = training.recompute_num_layers;
  TY_CHECK(n > 0, n);
  const std::int64_t step = method == RecomputeMethod::Every ? n : 1;
  std::int64_t end = count;
  if (method == RecomputeMethod::Block) end = std::min(n, span.layers);
  if (method == RecomputeMethod::Fraction)
    end = layers_of_fraction(training.recompute_fraction.value_or(1), count);
  for (std::int64_t layer_in_chunk = 0; layer_in_chunk < end; layer_in_chunk += step)
    chosen[static_cast<std::size_t>(layer_in_chunk)] = true;
  return chosen;
}

}  // namespace

std::vector<RecomputeUnit> recompute_units(const Training& training, const LayerSpan& span) {
  const std::vector<bool> chosen = chosen_layers(training, span);
  const bool grouped = training.recompute == Recompute::Full &&
                       training.recompute_method == RecomputeMethod::Uniform;
  std::vector<RecomputeUnit> units;
  for (std::int64_t layer_in_chunk = 0; layer_in_chunk < span.layers + span.mtp_layers;) {
    const bool groups = grouped && layer_in_chunk < span.layers;
    const std::int64_t count =
        groups ? std::min(training.recompute_num_layers, span.layers - layer_in_chunk) : 1;
    units.push_back({.first = layer_in_chunk,
                     .layers = count,
                     .recomputed = chosen[static_cast<std::size_t>(layer_in_chunk)]});
    layer_in_chunk += count;
  }
  return units;
}

std::vector<bool> recomputed_layers(const TrainingPlan& plan) {
  std::vector<bool> all;
  const std::vector<std::int64_t> split = layer_split(plan);
  for (std::size_t stage = 0; stage < split.size(); ++stage) {
    const bool last = stage + 1 == split.size();
    const std::vector<bool> chosen =
        chosen_layers(plan.training, {.first = static_cast<std::int64_t>(all.size()),
                                      .layers = split[stage],
                                      .mtp_layers = last ? plan.training.mtp_layers : 0});
    all.insert(all.end(), chosen.begin(), chosen.end());
  }
  return all;
}

}  // namespace trainyard
