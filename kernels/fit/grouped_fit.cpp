#include "kernels/fit/grouped_fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "kernels/fit/samples.hpp"
#include "kernels/roofline.hpp"
#include "sim/base/check.hpp"

namespace trainyard::fit {

namespace {

// Nodes an octave or two apart: finer ones have too few modules each.
const std::array<std::vector<std::int64_t>, 3> kAxes = {
    {{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384},
     {1, 2, 4, 8, 16, 32, 64, 128, 256, 512},
     {64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072}}};
constexpr double kSmoothness = 0.05;  // weight of a difference between neighbours, per sample
constexpr int kGaussNewtonSteps = 6;
constexpr int kSweeps = 300;

// The nodes around a point with their shares.
struct Stencil {
  std::array<std::pair<std::size_t, double>, 8> nodes{};
};

Stencil stencil_of(const std::array<std::int64_t, 3>& point) {
  std::array<std::pair<std::size_t, double>, 3> at;  // lower node, share of the next
  for (std::size_t d = 0; d < 3; ++d) {
    const auto& axis = kAxes[d];
    const std::int64_t x = std::clamp(point[d], axis.front(), axis.back());
    const auto above = std::upper_bound(axis.begin(), axis.end() - 1, x);
    const auto low = static_cast<std::size_t>(above - axis.begin()) - 1;
    const double width =
        std::log2(static_cast<double>(axis[low + 1]) / static_cast<double>(axis[low]));
    at[d] = {low, std::log2(static_cast<double>(x) / static_cast<double>(axis[low])) / width};
  }
  Stencil stencil;
  for (std::size_t corner = 0; corner < 8; ++corner) {
    std::size_t index = 0;
    double weight = 1.0;
    for (std::size_t d = 0; d < 3; ++d) {
      const bool high = ((corner >> d) & 1U) != 0;
      index = index * kAxes[d].size() + at[d].first + (high ? 1 : 0);
      weight *= high ? at[d].second : 1.0 - at[d].second;
    }
    stencil.nodes[corner] = {index, weight};
  }
  return stencil;
}

double read_at(const std::vector<double>& values, const Stencil& stencil) {
  double sum = 0.0;
  for (const auto& [node, weight] : stencil.nodes) sum += weight * values[node];
  return sum;
}

// One module with everything that does not change during the fit.
struct Prepared {
  std::array<double, 2> product{};  // seconds of the tile model
  std::array<Stencil, 2> at{};
  double rest = 0.0;
  double measured = 0.0;
};

Prepared prepared(const GpuProfile& profile, const ModuleSample& sample) {
  Prepared ready{.rest = module_rest_time(profile, sample.module).value(),
                 .measured = sample.seconds};
  const std::array products = {up_product(sample.module), down_product(sample.module)};
  for (const std::size_t i : {0U, 1U}) {
    ready.product[i] = tile_model_time(profile.sheet, profile.gemm.tile, products[i]).value();
    ready.at[i] = stencil_of(grouped_coordinates(products[i]));
  }
  return ready;
}

// A linear equation in the nodes: sum of weight * value = target.
struct Equation {
  std::vector<std::pair<std::size_t, double>> terms;
  double target = 0.0;
};

// log(prediction) around the present factors: it changes with each product's share of the module.
Equation linearised(const Prepared& module, const std::vector<double>& values) {
  double sum = module.rest;
  std::array<double, 2> part{};
  for (const std::size_t i : {0U, 1U}) {
    part[i] = module.product[i] * std::exp(read_at(values, module.at[i]));
    sum += part[i];
  }
  std::map<std::size_t, double> terms;
  Equation equation{.terms = {}, .target = std::log(module.measured / sum)};
  for (const std::size_t i : {0U, 1U})
    for (const auto& [node, weight] : module.at[i].nodes)
      if (weight > 0.0) terms[node] += weight * part[i] / sum;
  // Huber's loss by reweighting: beyond the width an error counts linearly.
  constexpr double width = 0.1;
  const double trust = std::sqrt(width / std::max(width, std::abs(equation.target)));
  for (const auto& [node, weight] : terms) {
    equation.terms.emplace_back(node, trust * weight);
    equation.target += weight * values[node];
  }
  equation.target *= trust;
  return equation;
}

// Neighbours along each axis are to be alike.
std::vector<Equation> smoothness(double weight) {
  std::vector<Equation> equations;
  const std::array stride = {kAxes[1].size() * kAxes[2].size(), kAxes[2].size(), std::size_t{1}};
  for (std::size_t a = 0; a < kAxes[0].size(); ++a)
    for (std::size_t b = 0; b < kAxes[1].size(); ++b)
      for (std::size_t c = 0; c < kAxes[2].size(); ++c) {
        const std::array place = {a, b, c};
        const std::size_t node = a * stride[0] + b * stride[1] + c;
        for (std::size_t d = 0; d < 3; ++d)
          if (place[d] + 1 < kAxes[d].size())
            equations.push_back({{{node, weight}, {node + stride[d], -weight}}, 0.0});
      }
  return equations;
}

// Least squares by conjugate gradients on the normal equations.
std::vector<double> solve(const std::vector<Equation>& equations, std::vector<double> x) {
  const auto apply = [&](const std::vector<double>& v, bool with_target) {
    std::vector<double> out(v.size(), 0.0);
    for (const Equation& e : equations) {
      double residual = with_target ? e.target : 0.0;
      for (const auto& [node, weight] : e.terms)
        residual += (with_target ? -1.0 : 1.0) * weight * v[node];
      for (const auto& [node, weight] : e.terms) out[node] += weight * residual;
    }
    return out;
  };
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  };
  std::vector<double> residual = apply(x, true);
  std::vector<double> direction = residual;
  double size = dot(residual, residual);
  for (int sweep = 0; sweep < kSweeps && size > 1e-16; ++sweep) {
    const std::vector<double> image = apply(direction, false);
    const double step = size / dot(direction, image);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] += step * direction[i];
      residual[i] -= step * image[i];
    }
    const double next = dot(residual, residual);
    for (std::size_t i = 0; i < x.size(); ++i)
      direction[i] = residual[i] + next / size * direction[i];
    size = next;
  }
  return x;
}

}  // namespace

ModuleSamples read_module_samples(const std::filesystem::path& file, const std::string& precision,
                                  const std::string& routing) {
  const CsvTable table(file);
  std::map<std::pair<ModuleKind, std::int64_t>, std::vector<double>> by_shape;
  ModuleSamples samples;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.text(row, "dtype") != precision || table.text(row, "distribution") != routing)
      continue;
    if (table.integer(row, "suspect") != 0) continue;
    const ExpertModule module{.tokens = table.integer(row, "num_tokens"),
                              .topk = table.integer(row, "topk"),
                              .experts = table.integer(row, "experts"),
                              .expert_parallel = table.integer(row, "ep"),
                              .tensor_parallel = table.integer(row, "tp"),
                              .hidden = table.integer(row, "hidden"),
                              .inner = table.integer(row, "inter"),
                              .gated = table.integer(row, "gated") != 0,
                              .routing = routing,
                              .precision = precision};
    by_shape[{kind_of(module), module.tokens}].push_back(table.number(row, "time_us") * 1e-6);
    ++samples.rows;
  }
  for (auto& [key, times] : by_shape)
    samples.medians.push_back({module_of(key.first, key.second), median(std::move(times))});
  return samples;
}

std::vector<std::string> read_routings(const std::filesystem::path& file) {
  const CsvTable table(file);
  std::set<std::string> names;
  for (std::size_t row = 0; row < table.rows(); ++row)
    names.insert(table.text(row, "distribution"));
  return {names.begin(), names.end()};
}

namespace {

// Mean absolute logarithmic error when one factor stands for all products; the factor is the median
// of what the samples ask for.
double error_with_one_factor(const std::vector<Prepared>& modules, double overhead, double share) {
  std::vector<double> factors;
  for (const Prepared& m : modules)
    factors.push_back((m.measured - m.rest * share - overhead) / (m.product[0] + m.product[1]));
  const double factor = std::max(0.1, median(std::move(factors)));
  double error = 0.0;
  for (const Prepared& m : modules)
    error += std::abs(std::log(
        (m.rest * share + overhead + factor * (m.product[0] + m.product[1])) / m.measured));
  return error;
}

}  // namespace

GroupedModel fit_module_rest(GpuProfile profile, const std::vector<ModuleSample>& samples) {
  profile.grouped = {};
  std::vector<Prepared> modules;
  for (std::size_t i = 0; i < samples.size(); i += 3)
    modules.push_back(prepared(profile, samples[i]));
  GroupedModel best;
  double least = std::numeric_limits<double>::infinity();
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0})
    for (double overhead = 0.0; overhead <= 80e-6; overhead += 2e-6) {
      const double error = error_with_one_factor(modules, overhead, share);
      if (error >= least) continue;
      least = error;
      best = {.module_overhead = Seconds{overhead}, .module_traffic = share, .tables = {}};
    }
  return best;
}

GroupedFit fit_grouped(const GpuProfile& profile, const std::vector<ModuleSample>& samples) {
  TY_CHECK(!samples.empty());
  std::vector<Prepared> modules;
  for (const ModuleSample& sample : samples) modules.push_back(prepared(profile, sample));
  GroupedFit fit{.axes = kAxes};
  std::vector<double> values(kAxes[0].size() * kAxes[1].size() * kAxes[2].size(), 0.0);
  for (int step = 0; step < kGaussNewtonSteps; ++step) {
    std::vector<Equation> equations = smoothness(kSmoothness);
    for (const Prepared& module : modules) equations.push_back(linearised(module, values));
    values = solve(equations, std::move(values));
    for (double& value : values) value = std::clamp(value, -2.0, 4.0);
  }
  for (double& value : values) value = std::round(value * 1e3) / 1e3;  // as written in the profile
  fit.log_factor = std::move(values);
  return fit;
}

GroupedTable table_of(DataType dtype, const GroupedFit& fit) {
  return {dtype, Surface({fit.axes.begin(), fit.axes.end()}, fit.log_factor)};
}

void add_series(ExpertTable& table, const std::vector<ModuleSample>& samples) {
  for (const ModuleSample& sample : samples)
    table.series[kind_of(sample.module)].emplace_back(sample.module.tokens, sample.seconds);
  for (auto& [kind, series] : table.series) std::sort(series.begin(), series.end());
}

ModuleErrors held_out_modules(const GpuProfile& profile, const std::vector<ModuleSample>& samples,
                              const HoldOut& hold_out) {
  const auto left_out = draw(samples.size(), hold_out);
  std::vector<ModuleSample> seen;
  std::vector<ModuleSample> unseen;
  for (std::size_t i = 0; i < samples.size(); ++i)
    (left_out[i] ? unseen : seen).push_back(samples[i]);
  GpuProfile fitted = profile;
  if (samples.front().module.routing == "balanced") {
    fitted.grouped = fit_module_rest(profile, seen);
    const DataType dtype = up_product(samples.front().module).dtype;
    fitted.grouped.tables = {table_of(dtype, fit_grouped(fitted, seen))};
  }
  ExpertTable table;
  add_series(table, seen);
  prepare(table, fitted.sheet);
  std::vector<double> by_series;
  std::vector<double> by_model;
  for (const ModuleSample& sample : unseen) {
    by_series.push_back(module_cost(fitted, table, sample.module).time.value() / sample.seconds);
    by_model.push_back(module_model_time(fitted, sample.module).value() / sample.seconds);
  }
  return {errors_of(by_series), errors_of(std::move(by_model)), std::move(by_series)};
}

}  // namespace trainyard::fit
