#include "tools/studies/validate/interval_fit.hpp"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <map>
#include <set>

#include "sim/base/error.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// Errors beyond this count as this, so that a wrong row does not decide the fit.
constexpr double kLargestError = 0.6;
constexpr int kFitRounds = 2000;

using Runs = std::vector<ErrorOfRun>;

double square(double value) { return value * value; }

bool has(const Outcome& outcome, Uncertain kind) {
  return outcome.uncertain[static_cast<std::size_t>(kind)] > 0.0;
}

// The runs as matrices, a row for each. Shares and errors are squared here, once, because the fit
// uses only their squares.
struct Samples {
  Eigen::ArrayXXd shares;  // squared
  Eigen::ArrayXd errors;   // squared
  Eigen::ArrayXd weights;
};

Samples samples_of(const Runs& runs) {
  // Groups of runs whose errors are correlated. A source is a group of its own for each way in
  // which its runs were predicted: by tables or by a data sheet, judged or only fitted.
  const auto name = [](const ErrorOfRun& run) {
    return fmt::format("{} {} {}", run.outcome->row.source, run.by_data_sheet(), run.judged);
  };
  std::map<std::string, double> members;
  for (const ErrorOfRun& run : runs) ++members[name(run)];
  const auto count = static_cast<Eigen::Index>(runs.size());
  Samples samples{.shares = Eigen::ArrayXXd(count, kUncertainKinds),
                  .errors = Eigen::ArrayXd(count),
                  .weights = Eigen::ArrayXd(count)};
  for (Eigen::Index row = 0; row < count; ++row) {
    const ErrorOfRun& run = runs[static_cast<std::size_t>(row)];
    for (std::size_t kind = 0; kind < kUncertainKinds; ++kind)
      samples.shares(row, static_cast<Eigen::Index>(kind)) = square(run.outcome->uncertain[kind]);
    samples.errors(row) = square(std::min(std::abs(run.error), kLargestError));
    // The weights of a group with n runs sum up to sqrt(n).
    samples.weights(row) = 1.0 / std::sqrt(members[name(run)]);
  }
  return samples;
}

// The value that the given share of the weight does not exceed.
double weighted_quantile(const Eigen::ArrayXd& values, const Eigen::ArrayXd& weights,
                         double share) {
  std::vector<Eigen::Index> order(static_cast<std::size_t>(values.size()));
  for (std::size_t place = 0; place < order.size(); ++place)
    order[place] = static_cast<Eigen::Index>(place);
  std::ranges::stable_sort(order, {}, [&](Eigen::Index row) { return values(row); });
  double sum = 0.0;
  for (const Eigen::Index row : order) {
    sum += weights(row);
    if (sum >= share * weights.sum()) return values(row);
  }
  return values(order.back());
}

}  // namespace

bool ErrorOfRun::by_data_sheet() const { return has(*outcome, Uncertain::SheetGpu); }

double deviations_of(double probability) {
  return boost::math::quantile(boost::math::normal(), 0.5 + probability / 2.0);
}

namespace {

constexpr double kNoise = 1e-6;  // no run is certain, and no variance is 0

// The factor on standard deviations at which 90 % of the weight is within 1.645 of them.
double scale_of(const Samples& samples, const Eigen::ArrayXd& variance) {
  return weighted_quantile((samples.errors / variance).sqrt(), samples.weights,
                           kIntervalProbability) /
         deviations_of(kIntervalProbability);
}

// The variance of each run by the variances of the kinds.
Eigen::ArrayXd variance_of(const Samples& samples, const Eigen::ArrayXd& variances) {
  return (samples.shares.matrix() * variances.matrix()).array() + kNoise;
}

// The variances of the kinds by runs on GPUs with tables of kernels.
Eigen::ArrayXd fit_variances(const Runs& runs) {
  const Samples samples = samples_of(runs);
  const auto by_kind = [&](const Eigen::ArrayXd& of_runs) -> Eigen::ArrayXd {
    return (samples.shares.matrix().transpose() * of_runs.matrix()).array();
  };
  constexpr double kStart = 0.05;
  Eigen::ArrayXd variances = Eigen::ArrayXd::Constant(kUncertainKinds, square(kStart));
  for (int round = 0; round < kFitRounds; ++round) {
    const Eigen::ArrayXd v = variance_of(samples, variances);
    const Eigen::ArrayXd seen = by_kind(samples.weights * samples.errors / v.square());
    const Eigen::ArrayXd expected = by_kind(samples.weights / v);
    // A kind that no run has is not known to be uncertain.
    variances = (expected > 0.0).select(variances * (seen / expected.max(1e-300)).sqrt(), 0.0);
  }
  // Likelihood has given the ratios of the kinds; the common scale follows from the quantile, since
  // normal tails are not assumed.
  return variances * square(scale_of(samples, variance_of(samples, variances)));
}

// The variance that a data sheet adds to the others, so that 90 % of the weight is within. By
// bisection, since more variance lowers the scale.
double fit_sheet(const Runs& runs, const Eigen::ArrayXd& variances) {
  const Samples samples = samples_of(runs);
  const Eigen::ArrayXd fixed = variance_of(samples, variances);
  const Eigen::ArrayXd share =
      samples.shares.col(static_cast<Eigen::Index>(Uncertain::SheetGpu)).eval();
  double low = 0.0, high = 1.0;
  for (int round = 0; round < 30; ++round) {
    const double middle = 0.5 * (low + high);
    (scale_of(samples, fixed + share * middle) > 1.0 ? low : high) = middle;
  }
  return high;
}

}  // namespace

UncertainShares fit_deviations(const std::vector<ErrorOfRun>& runs) {
  Runs measured, sheets;
  for (const ErrorOfRun& run : runs) (run.by_data_sheet() ? sheets : measured).push_back(run);
  Eigen::ArrayXd variances = fit_variances(measured);
  if (!sheets.empty())
    variances(static_cast<Eigen::Index>(Uncertain::SheetGpu)) = fit_sheet(sheets, variances);
  UncertainShares deviation{};
  for (std::size_t kind = 0; kind < kUncertainKinds; ++kind)
    deviation[kind] = std::sqrt(variances(static_cast<Eigen::Index>(kind)));
  return deviation;
}

namespace {

// Two runs whose parts have the same causes: of one source, framework and GPU.
struct Pair {
  const ErrorOfRun* a = nullptr;
  const ErrorOfRun* b = nullptr;
  double weight = 0.0;
};

std::vector<Pair> pairs_of(const Runs& runs) {
  std::map<std::string, std::vector<const ErrorOfRun*>> alike;
  for (const ErrorOfRun& run : runs) {
    const MeasuredRow& row = run.outcome->row;
    if (run.judged && !run.by_data_sheet())
      alike[row.source + ' ' + feature_of(row, Feature::Gpu) + ' ' +
            feature_of(row, Feature::Framework)]
          .push_back(&run);
  }
  // A group of n runs has n (n - 1) / 2 pairs. With this weight they count as (n - 1) / 2 together.
  std::vector<Pair> pairs;
  for (const auto& [name, members] : alike) {
    for (std::size_t first = 0; first < members.size(); ++first) {
      for (std::size_t second = 0; second < first; ++second)
        pairs.push_back(
            {members[first], members[second], 1.0 / static_cast<double>(members.size())});
    }
  }
  return pairs;
}

// The correlation at which the intervals of ratios contain 90 % of the pairs. Two runs of one
// source, GPU and framework share part of their error, which cancels in their ratio: the variance
// of log(ratio) is a^2 + b^2 - 2 c a b for each kind. The width falls with c, so bisection finds
// the greatest c with 90 % inside. 12 rounds give it to 1/4096.
double fit_correlation(const Runs& runs, const UncertainShares& deviation) {
  const std::vector<Pair> pairs = pairs_of(runs);
  const double within = deviations_of(kIntervalProbability);
  const auto inside = [&](double correlation) {
    double sum = 0.0, all = 0.0;
    for (const Pair& pair : pairs) {
      double v = 0.0;
      for (std::size_t kind = 0; kind < kUncertainKinds; ++kind) {
        const double a = pair.a->outcome->uncertain[kind] * deviation[kind];
        const double b = pair.b->outcome->uncertain[kind] * deviation[kind];
        v += a * a + b * b - 2.0 * correlation * a * b;
      }
      all += pair.weight;
      if (square(pair.a->error - pair.b->error) <= square(within) * v) sum += pair.weight;
    }
    return all > 0.0 ? sum / all : 0.0;
  };
  double low = 0.0, high = 1.0;
  if (inside(low) < kIntervalProbability) return 0.0;
  for (int round = 0; round < 12; ++round) {
    const double middle = 0.5 * (low + high);
    (inside(middle) < kIntervalProbability ? high : low) = middle;
  }
  return low;
}

void add_error(Runs& runs, const Outcome& outcome, bool judged) {
  if (!outcome.timed()) return;
  runs.push_back({.outcome = &outcome, .error = -std::log1p(outcome.error()), .judged = judged});
}

}  // namespace

std::vector<ErrorOfRun> errors_of_runs(const std::vector<Outcome>& shipped,
                                       const std::vector<Outcome>& by_source,
                                       const std::vector<Outcome>& by_gpu) {
  Runs runs;
  for (const Outcome& outcome : by_source) add_error(runs, outcome, true);
  for (std::size_t row = 0; row < shipped.size(); ++row)
    // Without its own rows, a source with a framework of its own lacks that framework's constants.
    // Its rows as shipped then fit the other kinds, and do not judge.
    if (has(by_source[row], Uncertain::NewFramework)) add_error(runs, shipped[row], false);
  for (const Outcome& outcome : by_gpu)
    if (has(outcome, Uncertain::SheetGpu)) add_error(runs, outcome, true);
  return runs;
}

Uncertainty fit_uncertainty(const std::vector<ErrorOfRun>& runs) {
  if (runs.size() < kIntervalRunsLeast)
    throw InputError(Problem{
        "--intervals", "", fmt::format("{} runs do not determine the deviations", runs.size()),
        fmt::format("give data sets with {} runs or more", kIntervalRunsLeast)});
  Uncertainty table{.deviation = fit_deviations(runs)};
  table.correlation = fit_correlation(runs, table.deviation);
  std::set<std::string> sources, frameworks;
  for (const ErrorOfRun& run : runs) {
    if (run.by_data_sheet()) continue;
    table.runs += run.judged ? 1 : 0;
    sources.insert(run.outcome->row.source);
    frameworks.insert(text_at(run.outcome->scenario, "/framework", "megatron"));
  }
  table.sources = sources.size();
  table.frameworks.assign(frameworks.begin(), frameworks.end());
  return table;
}

Json uncertainty_json(const Uncertainty& table, const std::string& source) {
  const auto rounded = [](double value) { return std::round(1e4 * value) / 1e4; };
  Json deviation = Json::object();
  for (std::size_t kind = 0; kind < kUncertainKinds; ++kind)
    deviation[std::string(texts_of(static_cast<Uncertain>(kind)).key)] =
        rounded(table.deviation[kind]);
  return {{"source", source},
          {"runs", table.runs},
          {"sources", table.sources},
          {"correlation", rounded(table.correlation)},
          {"deviation", std::move(deviation)},
          {"frameworks", table.frameworks}};
}

}  // namespace trainyard
