#include "kernels/fit/attention_fit.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

namespace trainyard::fit {

namespace {

// The tables have causal self-attention, which has s (s + 1) / 2 pairs.
Attention attention_of(const AttentionSample& s) {
  return {.batch = s.batch,
          .query_heads = s.heads,
          .kv_heads = s.kv_heads,
          .query_length = s.sequence,
          .kv_length = s.sequence,
          .head_dim_qk = s.head_dim,
          .head_dim_v = s.head_dim,
          .pairs = s.sequence * (s.sequence + 1) / 2};
}

// The time of storing keys and values, which is part of the measured times: two tensors with 2
// bytes per number.
Seconds append_time(BytesPerSecond append, const AttentionSample& s) {
  const auto elements = s.batch * s.sequence * s.kv_heads * s.head_dim * 2;
  return Bytes{2.0 * static_cast<double>(elements)} / append;
}

// Mean of |log(predicted / measured)|, in which twice and half the time count equally.
double mean_error(const GpuSheet& sheet, const AttentionFit& fit,
                  const std::vector<AttentionSample>& samples) {
  double sum = 0.0;
  for (const auto& s : samples) {
    const Seconds time =
        attention_model_time(sheet, fit.model, attention_of(s)) + append_time(fit.append, s);
    sum += std::abs(std::log(time.value() / s.seconds));
  }
  return sum / static_cast<double>(samples.size());
}

struct Constant {
  double (*get)(const AttentionFit&);
  void (*set)(AttentionFit&, double);
  double least;
  double most;
};

constexpr std::array constants = {
    Constant{[](const AttentionFit& f) { return f.model.forward_efficiency; },
             [](AttentionFit& f, double x) { f.model.forward_efficiency = x; }, 0.1, 1.0},
    Constant{[](const AttentionFit& f) { return f.model.launch.value(); },
             [](AttentionFit& f, double x) { f.model.launch = Seconds{x}; }, 1e-6, 4e-5},
    Constant{[](const AttentionFit& f) { return f.append.value(); },
             [](AttentionFit& f, double x) { f.append = BytesPerSecond{x}; }, 1e11, 4e12}};

// Coordinate search with a step that halves, as in fit_tile_model.
void fit_constants(const GpuSheet& sheet, const std::vector<AttentionSample>& samples,
                   AttentionFit& best) {
  double least = mean_error(sheet, best, samples);
  for (double step = 0.25; step > 0.005;) {
    bool improved = false;
    for (const Constant& constant : constants) {
      for (const double direction : {-1.0, 1.0}) {
        AttentionFit trial = best;
        const double moved =
            constant.get(best) + direction * step * 0.5 * (constant.most - constant.least);
        constant.set(trial, std::clamp(moved, constant.least, constant.most));
        const double error = mean_error(sheet, trial, samples);
        if (error >= least) continue;
        least = error;
        best = trial;
        improved = true;
      }
    }
    if (!improved) step /= 2.0;
  }
  // The constants are rounded as they are written to the profile, so that the tables correct the
  // model that will be read.
  best.model.forward_efficiency = std::round(best.model.forward_efficiency * 1e4) / 1e4;
  best.model.launch = Seconds{std::round(best.model.launch.value() * 1e9) / 1e9};
  best.append = BytesPerSecond{std::round(best.append.value() / 1e9) * 1e9};
}

// All values of batch x heads that occur: powers of two, and multiples of the 40 and 96 heads of
// large models.
std::vector<std::int64_t> batch_heads_axis(const std::vector<AttentionSample>& samples) {
  std::set<std::int64_t> nodes;
  for (const auto& s : samples) nodes.insert(s.batch * s.heads);
  return {nodes.begin(), nodes.end()};
}

// Fits one correction surface per head size: log(measured / model) at the nodes, with holes filled
// from their neighbours.
void fit_tables(const GpuSheet& sheet, const std::vector<AttentionSample>& samples,
                AttentionFit& fit) {
  const std::vector<std::vector<std::int64_t>> grid(fit.axes.begin(), fit.axes.end());
  const std::size_t nodes = fit.axes[0].size() * fit.axes[1].size();
  const Surface index(grid, std::vector<double>(nodes));
  for (const std::int64_t dim : fit.head_dims) {
    std::map<std::size_t, std::vector<double>> at;
    for (const auto& s : samples) {
      if (s.head_dim != dim) continue;
      const auto node = index.node(std::array{s.sequence, s.batch * s.heads});
      const double kernel = s.seconds - append_time(fit.append, s).value();
      // Where storing keys and values takes most of the time, the sample does not determine the
      // kernel.
      if (!node || kernel < 0.2 * s.seconds) continue;
      at[*node].push_back(kernel / attention_model_time(sheet, fit.model, attention_of(s)).value());
    }
    std::vector<std::optional<double>> known(nodes);
    for (auto& [node, ratios] : at) known[node] = std::log(median(std::move(ratios)));
    const auto corrections = fill_holes(grid, known);
    std::vector<double> share;
    std::vector<bool> measured;
    for (std::size_t node = 0; node < nodes; ++node) {
      const Attention a = table_attention(fit.axes[0][node / fit.axes[1].size()],
                                          fit.axes[1][node % fit.axes[1].size()], dim);
      const Seconds time = attention_model_time(sheet, fit.model, a) * std::exp(corrections[node]);
      share.push_back(std::clamp(flops(a) / sheet.peak(a.dtype) / time, 1e-4, 1.0));
      measured.push_back(known[node].has_value());
    }
    fit.share.push_back(std::move(share));
    fit.measured.push_back(std::move(measured));
    fit.model.tables.push_back({dim, Surface(grid, corrections)});
  }
}

// Chooses the rate of storing keys and values that leaves the smallest error after the tables are
// fitted. Samples with equal batch x heads and different key heads share a node, so only this rate
// distinguishes them.
AttentionFit with_best_append(const GpuSheet& sheet, const std::vector<AttentionSample>& samples,
                              const AttentionFit& constants_only) {
  std::optional<AttentionFit> best;
  double least = 0.0;
  for (const double factor : {0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0}) {
    AttentionFit trial = constants_only;
    trial.append = BytesPerSecond{std::round(constants_only.append.value() * factor / 1e9) * 1e9};
    fit_tables(sheet, samples, trial);
    double error = 0.0;
    for (const auto& s : samples)
      error +=
          std::abs(std::log(table_time(sheet, trial.model, trial.append, s).value() / s.seconds));
    if (best && error >= least) continue;
    least = error;
    best = std::move(trial);
  }
  return *best;
}

}  // namespace

AttentionFit fit_attention(const GpuSheet& sheet, const std::vector<AttentionSample>& samples) {
  AttentionFit fit;
  fit_constants(sheet, samples, fit);
  std::set<std::int64_t> sequences;
  std::set<std::int64_t> dims;
  for (const auto& s : samples) sequences.insert(s.sequence), dims.insert(s.head_dim);
  fit.axes = {std::vector<std::int64_t>(sequences.begin(), sequences.end()),
              batch_heads_axis(samples)};
  fit.head_dims.assign(dims.begin(), dims.end());
  return with_best_append(sheet, samples, fit);
}

Seconds table_time(const GpuSheet& sheet, const AttentionModel& model, BytesPerSecond append,
                   const AttentionSample& sample) {
  return attention_cost(sheet, model, attention_of(sample)).time + append_time(append, sample);
}

Errors attention_errors(const GpuSheet& sheet, const AttentionFit& fit,
                        const std::vector<AttentionSample>& samples) {
  std::vector<double> ratios;
  for (const auto& s : samples)
    ratios.push_back(table_time(sheet, fit.model, fit.append, s).value() / s.seconds);
  return errors_of(std::move(ratios));
}

Errors held_out_attention(const GpuSheet& sheet, const std::vector<AttentionSample>& samples,
                          const HoldOut& hold_out) {
  const auto left_out = draw(samples.size(), hold_out);
  std::vector<AttentionSample> seen;
  std::vector<AttentionSample> unseen;
  for (std::size_t i = 0; i < samples.size(); ++i)
    (left_out[i] ? unseen : seen).push_back(samples[i]);
  return attention_errors(sheet, fit_attention(sheet, seen), unseen);
}

}  // namespace trainyard::fit
