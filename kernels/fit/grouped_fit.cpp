#include "kernels/fit/grouped_fit.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
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

GroupedGemm product_of(const ModuleSample& s, DataType dtype, bool up) {
  GroupedGemm gemm{
      .rows = std::vector<std::int64_t>(static_cast<std::size_t>(s.experts), s.rows / s.experts),
      .n = up ? (s.gated ? 2 : 1) * s.inner : s.hidden,
      .k = up ? s.hidden : s.inner,
      .dtype = dtype};
  for (std::int64_t i = 0; i < s.rows % s.experts; ++i) ++gemm.rows[static_cast<std::size_t>(i)];
  return gemm;
}

// Rows in order, activation, rows added up; in 16 bits.
Seconds rest_of(const GroupedBase& base, const ModuleSample& s) {
  const auto time = [&](MemoryBoundKind kind, std::int64_t bytes) {
    return memory_bound_cost(base.sheet, base.memory, MemoryBound{.kind = kind, .bytes = bytes})
        .time;
  };
  return time(MemoryBoundKind::Permute, 2 * 2 * s.rows * s.hidden) * 2.0 +
         time(MemoryBoundKind::Activation, 2 * (s.gated ? 3 : 2) * s.rows * s.inner);
}

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

Prepared prepare(const GroupedBase& base, const ModuleSample& sample) {
  Prepared ready{.rest = rest_of(base, sample).value(), .measured = sample.seconds};
  for (const std::size_t i : {0U, 1U}) {
    const GroupedGemm gemm = product_of(sample, base.dtype, i == 0);
    ready.product[i] = tile_model_time(base.sheet, base.tile, gemm).value();
    ready.at[i] = stencil_of(grouped_coordinates(gemm));
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
  for (const auto& [node, weight] : terms) {
    equation.terms.emplace_back(node, weight);
    equation.target += weight * values[node];
  }
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

ModuleSamples read_module_samples(const std::filesystem::path& file, const std::string& dtype) {
  const CsvTable table(file);
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>;
  std::map<Key, std::vector<double>> by_shape;
  ModuleSamples samples;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.text(row, "dtype") != dtype || table.text(row, "distribution") != "balanced")
      continue;
    if (table.integer(row, "suspect") != 0) continue;
    const std::int64_t ep = table.integer(row, "ep");
    const std::int64_t rows = table.integer(row, "num_tokens") * table.integer(row, "topk") / ep;
    const std::int64_t experts = table.integer(row, "experts") / ep;
    const std::int64_t inner = table.integer(row, "inter") / table.integer(row, "tp");
    if (rows == 0 || experts == 0 || inner == 0) continue;
    by_shape[{rows, experts, table.integer(row, "hidden"), inner, table.integer(row, "gated") != 0}]
        .push_back(table.number(row, "time_us") * 1e-6);
    ++samples.rows;
  }
  for (auto& [key, times] : by_shape) {
    const auto& [rows, experts, hidden, inner, gated] = key;
    samples.medians.push_back({rows, experts, hidden, inner, gated, median(std::move(times))});
  }
  return samples;
}

GroupedFit fit_grouped(const GroupedBase& base, const std::vector<ModuleSample>& samples) {
  TY_CHECK(!samples.empty());
  std::vector<Prepared> modules;
  for (const ModuleSample& sample : samples) modules.push_back(prepare(base, sample));
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

Seconds module_time(const GroupedBase& base, const GroupedTable& table,
                    const ModuleSample& sample) {
  const GemmModel gemm{.tile = base.tile};
  const GroupedModel grouped{.tables = {table}};
  Seconds sum = rest_of(base, sample);
  for (const bool up : {true, false})
    sum = sum + grouped_cost(base.sheet, gemm, grouped, product_of(sample, base.dtype, up)).time;
  return sum;
}

Errors held_out_grouped(const GroupedBase& base, const std::vector<ModuleSample>& samples,
                        const HoldOut& hold_out) {
  const auto left_out = draw(samples.size(), hold_out);
  std::vector<ModuleSample> seen;
  std::vector<ModuleSample> unseen;
  for (std::size_t i = 0; i < samples.size(); ++i)
    (left_out[i] ? unseen : seen).push_back(samples[i]);
  const GroupedTable table = table_of(base.dtype, fit_grouped(base, seen));
  std::vector<double> ratios;
  for (const ModuleSample& sample : unseen)
    ratios.push_back(module_time(base, table, sample).value() / sample.seconds);
  return errors_of(std::move(ratios));
}

}  // namespace trainyard::fit
