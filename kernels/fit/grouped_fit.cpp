#include "kernels/fit/grouped_fit.hpp"

#include <Eigen/SparseCholesky>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "kernels/fit/samples.hpp"
#include "sim/base/check.hpp"

namespace trainyard::fit {

namespace {

// Nodes are an octave or two apart. Finer nodes would have too few modules each.
const std::array<std::vector<std::int64_t>, 3> kAxes = {
    {{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384},
     {1, 2, 4, 8, 16, 32, 64, 128, 256, 512},
     {64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072}}};
constexpr double kSmoothness = 0.05;  // weight of a difference between neighbours, per sample
constexpr int kGaussNewtonSteps = 6;

// The nodes around a point, with their interpolation weights.
struct Stencil {
  std::array<std::pair<int, double>, 8> nodes{};
};

// Trilinear interpolation in the logarithms of the coordinates. Points outside the grid move to its
// border.
Stencil stencil_of(const std::array<std::int64_t, 3>& point) {
  std::array<std::pair<std::size_t, double>, 3> at;  // lower node, and weight of the next
  for (std::size_t d = 0; d < 3; ++d) {
    const auto& axis = kAxes[d];
    const std::int64_t x = std::clamp(point[d], axis.front(), axis.back());
    // The search leaves out the last node, so that the node after `low` always exists.
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
    stencil.nodes[corner] = {static_cast<int>(index), weight};
  }
  return stencil;
}

double read_at(const Eigen::VectorXd& values, const Stencil& stencil) {
  double sum = 0.0;
  for (const auto& [node, weight] : stencil.nodes) sum += weight * values[node];
  return sum;
}

// One module, with everything that does not change during the fit.
struct Prepared {
  std::array<double, 2> gemm{};  // seconds of the tile model
  std::array<Stencil, 2> at{};
  double rest = 0.0;
  double measured = 0.0;
};

Prepared prepared(const GpuProfile& profile, const ModuleSample& sample) {
  Prepared ready{.rest = module_rest_time(profile, sample.module).value(),
                 .measured = sample.seconds};
  const std::array gemms = {up_gemm(sample.module), down_gemm(sample.module)};
  for (const std::size_t i : {0U, 1U}) {
    ready.gemm[i] = tile_model_time(profile.sheet, profile.gemm.tile, gemms[i]).value();
    ready.at[i] = stencil_of(grouped_coordinates(gemms[i]));
  }
  return ready;
}

// Linear equations in the node values: for each row, sum of weight * value = target.
struct Equations {
  // Row, node, weight; triplets of the same entry add up.
  std::vector<Eigen::Triplet<double>> terms;
  std::vector<double> targets;

  [[nodiscard]] int rows() const { return static_cast<int>(targets.size()); }
};

// Linearises log(prediction) around the current factors: the slope of a node is its weight times
// the share of the GEMM in the time of the module. The equation is sum of slope * new value =
// log(measured / predicted) + sum of slope * current value.
void add_linearised(Equations& equations, const Prepared& module, const Eigen::VectorXd& values) {
  double sum = module.rest;
  std::array<double, 2> part{};
  for (const std::size_t i : {0U, 1U}) {
    part[i] = module.gemm[i] * std::exp(read_at(values, module.at[i]));
    sum += part[i];
  }
  double target = std::log(module.measured / sum);
  // Huber's loss by reweighting: an error above the width counts linearly.
  constexpr double width = 0.1;
  const double trust = std::sqrt(width / std::max(width, std::abs(target)));
  for (const std::size_t i : {0U, 1U})
    for (const auto& [node, weight] : module.at[i].nodes) {
      const double slope = weight * part[i] / sum;
      equations.terms.emplace_back(equations.rows(), node, trust * slope);
      target += slope * values[node];
    }
  equations.targets.push_back(trust * target);
}

// Penalises differences between neighbours along each axis.
void add_smoothness(Equations& equations, double weight) {
  const std::array stride = {kAxes[1].size() * kAxes[2].size(), kAxes[2].size(), std::size_t{1}};
  for (std::size_t a = 0; a < kAxes[0].size(); ++a)
    for (std::size_t b = 0; b < kAxes[1].size(); ++b)
      for (std::size_t c = 0; c < kAxes[2].size(); ++c) {
        const std::array place = {a, b, c};
        const std::size_t node = a * stride[0] + b * stride[1] + c;
        for (std::size_t d = 0; d < 3; ++d) {
          if (place[d] + 1 == kAxes[d].size()) continue;
          equations.terms.emplace_back(equations.rows(), node, weight);
          equations.terms.emplace_back(equations.rows(), node + stride[d], -weight);
          equations.targets.push_back(0.0);
        }
      }
}

// Solves the least-squares problem by its normal equations, which are sparse.
Eigen::VectorXd solved(const Equations& equations, Eigen::Index nodes) {
  Eigen::SparseMatrix<double> matrix(equations.rows(), nodes);
  matrix.setFromTriplets(equations.terms.begin(), equations.terms.end());
  const Eigen::Map<const Eigen::VectorXd> targets(equations.targets.data(), equations.rows());
  const Eigen::SimplicialLDLT<Eigen::SparseMatrix<double>> normal(matrix.transpose() * matrix);
  TY_CHECK(normal.info() == Eigen::Success, equations.rows());
  return normal.solve(matrix.transpose() * targets);
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

// Mean absolute logarithmic error when one factor is applied to all GEMMs. The factor is the median
// of those that each sample needs.
double error_with_one_factor(const std::vector<Prepared>& modules, double overhead, double share) {
  std::vector<double> factors;
  // fit_module_rest() prepares the modules without overhead and with all of the traffic, so `rest`
  // scales with the share.
  for (const Prepared& m : modules)
    factors.push_back((m.measured - m.rest * share - overhead) / (m.gemm[0] + m.gemm[1]));
  const double factor = std::max(0.1, median(std::move(factors)));
  double error = 0.0;
  for (const Prepared& m : modules)
    error += std::abs(
        std::log((m.rest * share + overhead + factor * (m.gemm[0] + m.gemm[1])) / m.measured));
  return error;
}

}  // namespace

// Searches a grid of overheads (0 to 80 us) and shares of the traffic. Every third sample is enough
// for two constants.
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
  const std::size_t nodes = kAxes[0].size() * kAxes[1].size() * kAxes[2].size();
  // Gauss-Newton iteration: the factors enter the time of a module as a sum of exponentials, so the
  // problem is not linear. The bounds keep nodes without data finite.
  Eigen::VectorXd values = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(nodes));
  for (int step = 0; step < kGaussNewtonSteps; ++step) {
    Equations equations;
    add_smoothness(equations, kSmoothness);
    for (const Prepared& module : modules) add_linearised(equations, module, values);
    values = solved(equations, values.size()).cwiseMax(-2.0).cwiseMin(4.0);
  }
  for (const double value : values)  // rounded as in the profile
    fit.log_factor.push_back(std::round(value * 1e3) / 1e3);
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
  // The model is fitted to balanced modules only; other routings are predicted with the profile's
  // model.
  if (samples.front().module.routing == "balanced") {
    fitted.grouped = fit_module_rest(profile, seen);
    const DataType dtype = up_gemm(samples.front().module).dtype;
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
