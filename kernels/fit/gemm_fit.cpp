#include "kernels/fit/gemm_fit.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "kernels/roofline.hpp"

namespace trainyard::fit {

namespace {

Gemm gemm_of(const Sample& sample, DataType dtype) {
  return {.m = sample.shape[0], .n = sample.shape[1], .k = sample.shape[2], .dtype = dtype};
}

double gemm_mean_error(const GpuSheet& sheet, DataType dtype, const TileModel& model,
                       const std::vector<Sample>& samples) {
  double sum = 0.0;
  for (const Sample& sample : samples)
    sum += std::abs(
        std::log(tile_model_time(sheet, model, gemm_of(sample, dtype)).value() / sample.seconds));
  return sum / static_cast<double>(samples.size());
}

// One constant of the model, with its range.
struct GemmConstant {
  double (*get)(const TileModel&);
  void (*set)(TileModel&, double);
  double least;
  double most;
};

constexpr std::array gemm_constants = {
    GemmConstant{[](const TileModel& m) { return m.largest_tile; },
                 [](TileModel& m, double x) { m.largest_tile = x; }, 0.4, 1.0},
    GemmConstant{[](const TileModel& m) { return m.bandwidth_efficiency; },
                 [](TileModel& m, double x) { m.bandwidth_efficiency = x; }, 0.4, 1.0},
    GemmConstant{[](const TileModel& m) { return m.launch.value(); },
                 [](TileModel& m, double x) { m.launch = Seconds{x}; }, 2e-7, 1e-5},
    GemmConstant{[](const TileModel& m) { return m.prologue.value(); },
                 [](TileModel& m, double x) { m.prologue = Seconds{x}; }, 0.0, 1e-5},
    GemmConstant{[](const TileModel& m) { return m.tile_exponent; },
                 [](TileModel& m, double x) { m.tile_exponent = x; }, 0.0, 0.6}};

// Rounds the constants as they are written to the profile, so that the table corrects the model
// that will be read.
TileModel rounded_constant(TileModel model) {
  const auto to = [](double x, double unit) { return std::round(x / unit) * unit; };
  for (const GemmConstant& constant : gemm_constants)
    constant.set(model, to(constant.get(model), constant.most < 1e-3 ? 1e-9 : 1e-4));
  return model;
}

}  // namespace

// The error is not differentiable in the constants (waves and tiles jump), so the search uses no
// gradients.
TileModel fit_tile_model(const GpuSheet& sheet, DataType dtype,
                         const std::vector<Sample>& samples) {
  // Every fifth sample is enough for five constants.
  std::vector<Sample> few;
  for (std::size_t i = 0; i < samples.size(); i += 5) few.push_back(samples[i]);
  TileModel best;
  double least = gemm_mean_error(sheet, dtype, best, few);
  // Coordinate search. The step halves when no constant improves the error.
  for (double step = 0.25; step > 0.01;) {
    bool improved = false;
    for (const GemmConstant& constant : gemm_constants) {
      for (const double direction : {-1.0, 1.0}) {
        TileModel trial = best;
        const double moved =
            constant.get(best) + direction * step * 0.5 * (constant.most - constant.least);
        constant.set(trial, std::clamp(moved, constant.least, constant.most));
        const double error = gemm_mean_error(sheet, dtype, trial, few);
        if (error >= least) continue;
        least = error;
        best = trial;
        improved = true;
      }
    }
    if (!improved) step /= 2.0;
  }
  return rounded_constant(best);
}

// The nodes of each axis are all values that occur in the samples.
std::array<std::vector<std::int64_t>, 3> grid_of(const std::vector<Sample>& samples) {
  std::array<std::set<std::int64_t>, 3> nodes;
  for (const Sample& sample : samples)
    for (std::size_t d = 0; d < 3; ++d) nodes[d].insert(sample.shape[d]);
  std::array<std::vector<std::int64_t>, 3> axes;
  for (std::size_t d = 0; d < 3; ++d) axes[d].assign(nodes[d].begin(), nodes[d].end());
  return axes;
}

// Corrections are log(measured / tile model) at the nodes. fill_holes() derives the nodes without
// samples from their neighbours.
GemmFit fit_gemm_table(const GpuSheet& sheet, DataType dtype, const TileModel& tile,
                       const std::vector<Sample>& samples,
                       const std::array<std::vector<std::int64_t>, 3>& axes) {
  const std::vector<std::vector<std::int64_t>> grid(axes.begin(), axes.end());
  std::size_t nodes = 1;
  for (const auto& axis : axes) nodes *= axis.size();
  const Surface index(grid, std::vector<double>(nodes));
  std::vector<std::optional<double>> known(nodes);
  for (const Sample& sample : samples) {
    const auto node = index.node(sample.shape);
    if (!node) continue;
    known[*node] =
        std::log(sample.seconds / tile_model_time(sheet, tile, gemm_of(sample, dtype)).value());
  }
  const auto corrections = fill_holes(grid, known);
  GemmFit fit{.tile = tile, .axes = axes};
  std::size_t node = 0;
  for (const std::int64_t m : axes[0])
    for (const std::int64_t n : axes[1])
      for (const std::int64_t k : axes[2]) {
        const Gemm gemm{.m = m, .n = n, .k = k, .dtype = dtype};
        const Seconds bound = roofline(flops(gemm), hbm_bytes(gemm), sheet.peak(dtype), sheet.hbm);
        // The profile stores shares of the roofline, so that a sibling can use them with its own
        // data sheet.
        const Seconds time = tile_model_time(sheet, tile, gemm) * std::exp(corrections[node]);
        fit.share.push_back(std::clamp(bound / time, 1e-4, 1.0));
        fit.measured.push_back(known[node].has_value());
        ++node;
      }
  return fit;
}

// Converts the shares of the roofline back to corrections of the tile model.
GemmTable table_of(const GpuSheet& sheet, DataType dtype, const GemmFit& fit) {
  std::vector<double> corrections;
  std::size_t node = 0;
  for (const std::int64_t m : fit.axes[0])
    for (const std::int64_t n : fit.axes[1])
      for (const std::int64_t k : fit.axes[2]) {
        const Gemm gemm{.m = m, .n = n, .k = k, .dtype = dtype};
        const Seconds bound = roofline(flops(gemm), hbm_bytes(gemm), sheet.peak(dtype), sheet.hbm);
        corrections.push_back(
            std::log(bound / fit.share[node++] / tile_model_time(sheet, fit.tile, gemm)));
      }
  return {dtype, Surface({fit.axes.begin(), fit.axes.end()}, std::move(corrections)), fit.measured};
}

namespace {

Errors judge(const GpuSheet& sheet, DataType dtype, const GemmFit& fit,
             const std::vector<Sample>& unseen) {
  const GemmModel model{.tile = fit.tile, .tables = {table_of(sheet, dtype, fit)}};
  std::vector<double> ratios;
  for (const Sample& sample : unseen)
    ratios.push_back(sample.ratio(gemm_cost(sheet, model, gemm_of(sample, dtype)).time.value()));
  return errors_of(std::move(ratios));
}

}  // namespace

Errors held_out_gemm(const GpuSheet& sheet, DataType dtype, const std::vector<Sample>& samples,
                     const HoldOut& hold_out) {
  const auto left_out = draw(samples.size(), hold_out);
  std::vector<Sample> seen;
  std::vector<Sample> unseen;
  for (std::size_t i = 0; i < samples.size(); ++i)
    (left_out[i] ? unseen : seen).push_back(samples[i]);
  return unseen_gemm(sheet, dtype, seen, unseen);
}

Errors unseen_gemm(const GpuSheet& sheet, DataType dtype, const std::vector<Sample>& seen,
                   const std::vector<Sample>& unseen) {
  // The grid also has the nodes of the unseen samples, which are then holes and are filled.
  std::vector<Sample> all = seen;
  all.insert(all.end(), unseen.begin(), unseen.end());
  const TileModel tile = fit_tile_model(sheet, dtype, seen);
  return judge(sheet, dtype, fit_gemm_table(sheet, dtype, tile, seen, grid_of(all)), unseen);
}

Errors held_out_widths(const GpuSheet& sheet, DataType dtype, const std::vector<Sample>& samples) {
  // Inner values of the grid, at least one octave apart, so that each hole has both neighbours.
  const std::set<std::int64_t> widths = {1536, 3584, 6144, 10240};
  std::vector<Sample> seen;
  std::vector<Sample> unseen;
  for (const Sample& sample : samples) {
    const bool out = widths.contains(sample.shape[1]) || widths.contains(sample.shape[2]);
    (out ? unseen : seen).push_back(sample);
  }
  const TileModel tile = fit_tile_model(sheet, dtype, seen);
  return judge(sheet, dtype, fit_gemm_table(sheet, dtype, tile, seen, grid_of(seen)), unseen);
}

}  // namespace trainyard::fit
