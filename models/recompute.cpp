#include "models/recompute.hpp"

#include <algorithm>
#include <cmath>

#include "models/pipeline_shape.hpp"
#include "models/trained_weights.hpp"
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

// The layers of each stage; the MTP layers follow those of the last one.
std::vector<LayerSpan> stage_spans(const TrainingPlan& plan) {
  std::vector<LayerSpan> spans;
  std::int64_t first = 0;
  for (const std::int64_t layers : layer_split(plan)) {
    spans.push_back({.first = first, .layers = layers});
    first += layers;
  }
  spans.back().mtp_layers = plan.training.mtp_layers;
  return spans;
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
  for (const LayerSpan& span : stage_spans(plan)) {
    const std::vector<bool> chosen = chosen_layers(plan.training, span);
    all.insert(all.end(), chosen.begin(), chosen.end());
  }
  return all;
}

// The backward of a unit begins with the recomputation of all its layers.
std::vector<bool> repeated_layers(const TrainingPlan& plan) {
  const TrainedWeights weights = trained_weights(plan);
  std::vector<bool> all;
  for (const LayerSpan& span : stage_spans(plan)) {
    for (const RecomputeUnit& unit : recompute_units(plan.training, span)) {
      const std::int64_t last = span.first + unit.first + unit.layers - 1;
      all.insert(all.end(), static_cast<std::size_t>(unit.layers),
                 unit.recomputed && weights.reaches(last));
    }
  }
  return all;
}

}  // namespace trainyard
