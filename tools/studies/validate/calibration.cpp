#include "tools/studies/validate/calibration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/render/text_table.hpp"
#include "tools/studies/validate/score.hpp"

namespace trainyard {

namespace {

constexpr int kRounds = 50;  // of reweighting
// After the elimination of the constants before it, a diagonal element below this share of its
// first value means that the rows cannot separate the constant from them.
constexpr double kTellable = 1e-3;
constexpr double kSlopeLeast = 0.005;  // least mean slope: half a percent of the time

using Matrix = std::vector<std::vector<double>>;

[[noreturn]] void refuse(const std::string& name, const std::string& problem) {
  throw InputError(Problem{"--constants", "", fmt::format("{} {}", name, problem),
                           "fit fewer constants, or choose rows that depend on them"});
}

// Solves A x = b for a symmetric positive definite A by Gaussian elimination without pivoting. The
// order of the constants is kept, so a small pivot names the first constant that the rows cannot
// separate from those before it.
std::vector<double> solved(Matrix a, std::vector<double> b, const std::vector<std::string>& names) {
  const std::size_t size = b.size();
  std::vector<double> diagonal(size);
  for (std::size_t i = 0; i < size; ++i) diagonal[i] = a[i][i];
  for (std::size_t i = 0; i < size; ++i) {
    if (!(a[i][i] > kTellable * diagonal[i])) {
      refuse(names[i], "cannot be distinguished from the constants before it by these rows");
    }
    for (std::size_t row = i + 1; row < size; ++row) {
      const double factor = a[row][i] / a[i][i];
      for (std::size_t column = i; column < size; ++column) a[row][column] -= factor * a[i][column];
      b[row] -= factor * b[i];
    }
  }
  for (std::size_t i = size; i-- > 0;) {
    for (std::size_t column = i + 1; column < size; ++column) b[i] -= a[i][column] * b[column];
    b[i] /= a[i][i];
  }
  return b;
}

// The weight of each row: a series of n rows counts as sqrt(n) independent rows, because its errors
// are correlated.
std::vector<double> series_weights(const std::vector<FitRow>& rows) {
  std::map<std::string, double> counts;
  for (const FitRow& row : rows) counts[row.source] += 1.0;
  std::vector<double> weights;
  for (const FitRow& row : rows) weights.push_back(1.0 / std::sqrt(counts[row.source]));
  return weights;
}

double residual(const FitRow& row, const std::vector<double>& logs) {
  double value = row.residual;
  for (std::size_t i = 0; i < logs.size(); ++i) value += row.slopes[i] * logs[i];
  return value;
}

// Refuses a constant on which the rows hardly depend: its fitted value would be arbitrary.
void refuse_idle(const std::vector<FitRow>& rows, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    double mean = 0.0;
    for (const FitRow& row : rows) mean += std::abs(row.slopes[i]);
    if (mean < kSlopeLeast * static_cast<double>(rows.size())) {
      refuse(names[i], "hardly moves these rows");
    }
  }
}

// The logarithms of the factors that minimise the robust loss of calibration.hpp, by iteratively
// reweighted least squares: the weight of a row falls with its residual in units of `scale`. Each
// round solves the normal equations sum of w s_i s_j x_j = - sum of w s_i r, where s are the slopes
// of a row and r is its residual.
std::vector<double> logs_of(const std::vector<FitRow>& rows, const std::vector<std::string>& names,
                            double scale) {
  const std::size_t size = names.size();
  const std::vector<double> weights = series_weights(rows);
  std::vector<double> logs(size, 0.0);
  for (int round = 0; round < kRounds; ++round) {
    Matrix normal(size, std::vector<double>(size, 0.0));
    std::vector<double> right(size, 0.0);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const double now = residual(rows[r], logs) / scale;
      // The derivative of the loss is proportional to r / sqrt(1 + (r/s)^2). With this weight, the
      // normal equations are zero where that derivative is.
      const double weight = weights[r] / std::sqrt(1.0 + now * now);
      for (std::size_t i = 0; i < size; ++i) {
        right[i] -= weight * rows[r].slopes[i] * rows[r].residual;
        for (std::size_t j = 0; j < size; ++j) {
          normal[i][j] += weight * rows[r].slopes[i] * rows[r].slopes[j];
        }
      }
    }
    logs = solved(normal, right, names);
  }
  return logs;
}

double mape(const std::vector<const FitRow*>& rows, const std::vector<double>& logs) {
  double sum = 0.0;
  for (const FitRow* row : rows) sum += std::abs(std::exp(residual(*row, logs)) - 1.0);
  return sum / static_cast<double>(rows.size());
}

std::vector<double> exponentials(std::vector<double> logs) {
  for (double& value : logs) value = std::exp(value);
  return logs;
}

}  // namespace

std::vector<FitRow> without_levels(const std::vector<FitRow>& rows,
                                   const std::vector<std::string>& levels) {
  TY_CHECK(levels.size() == rows.size(), levels.size(), rows.size());
  std::map<std::string, std::vector<FitRow>> members;
  for (std::size_t r = 0; r < rows.size(); ++r) members[levels[r]].push_back(rows[r]);
  std::vector<FitRow> centred;
  for (auto& [level, level_rows] : members) {
    if (level_rows.size() < 2) continue;
    // For a least-squares fit with equal weights, removing the means gives the same slopes as
    // fitting one free level for each group.
    const auto centre = [&level_rows = level_rows](const auto& value_of) {
      double sum = 0.0;
      for (FitRow& row : level_rows) sum += value_of(row);
      for (FitRow& row : level_rows) value_of(row) -= sum / static_cast<double>(level_rows.size());
    };
    centre([](FitRow& row) -> double& { return row.residual; });
    for (std::size_t i = 0; i < level_rows.front().slopes.size(); ++i)
      centre([i](FitRow& row) -> double& { return row.slopes[i]; });
    centred.insert(centred.end(), level_rows.begin(), level_rows.end());
  }
  return centred;
}

std::vector<double> fit_factors(const std::vector<FitRow>& rows,
                                const std::vector<std::string>& names, double scale) {
  refuse_idle(rows, names);
  return exponentials(logs_of(rows, names, scale));
}

ConstantFit fit_constants(const std::vector<FitRow>& rows, const std::vector<std::string>& names,
                          double scale) {
  refuse_idle(rows, names);
  const std::vector<double> all = logs_of(rows, names, scale);
  ConstantFit fit{.factors = exponentials(all)};
  std::map<std::string, std::vector<const FitRow*>> series;
  for (const FitRow& row : rows) series[row.source].push_back(&row);
  std::vector<double> squares(names.size(), 0.0);
  for (const auto& [source, members] : series) {
    // The spread and the column "fitted without it" come from the same fits: each leaves one series
    // out.
    std::vector<FitRow> others;
    for (const FitRow& row : rows) {
      if (row.source != source) others.push_back(row);
    }
    const std::vector<double> without = logs_of(others, names, scale);
    fit.sources.push_back({.source = source,
                           .rows = members.size(),
                           .before = mape(members, std::vector<double>(names.size(), 0.0)),
                           .within = mape(members, all),
                           .without = mape(members, without),
                           .factors = exponentials(without)});
    for (std::size_t i = 0; i < names.size(); ++i) {
      squares[i] += (without[i] - all[i]) * (without[i] - all[i]);
    }
  }
  // The jackknife standard error: (n-1)/n times the squared deviations of the fits without one
  // series. The deviations are from the fit of all rows.
  const auto count = static_cast<double>(series.size());
  for (const double square : squares) {
    fit.spread.push_back(std::sqrt((count - 1.0) / count * square));
  }
  return fit;
}

namespace {

constexpr double kProbe = 1.05;       // the factor of a constant when its slope is measured
constexpr double kFactorMost = 1.5;   // in one round
constexpr double kConfidence = 1.96;  // standard errors of a 95 % interval

std::vector<std::string> names_of(const std::vector<Setting>& settings) {
  std::vector<std::string> names;
  for (const Setting& setting : settings) names.push_back(setting.constant.name);
  return names;
}

// The child processes read the constants from the overlay, so the data files stay as they are.
std::vector<Outcome> outcomes_at(const std::vector<MeasuredRow>& rows,
                                 const std::vector<Setting>& settings,
                                 const CalibrateOptions& options) {
  const DataOverlay data(settings);
  ValidateOptions chosen = options.validate;
  chosen.data = data.folder();
  return validate(rows, chosen);
}

// The rows that are predicted at all, and are worth simulating once more.
std::vector<MeasuredRow> predicted_rows(const std::vector<Outcome>& outcomes) {
  std::vector<MeasuredRow> rows;
  for (const Outcome& outcome : outcomes) {
    if (outcome.timed()) rows.push_back(outcome.row);
  }
  return rows;
}

// The rows whose level another row has too. Without levels these are all rows.
std::vector<MeasuredRow> rows_with_shared_levels(std::vector<MeasuredRow> rows,
                                                 std::optional<Feature> level_of) {
  if (!level_of) return rows;
  std::map<std::string, std::size_t> counts;
  for (const MeasuredRow& row : rows) ++counts[feature_of(row, *level_of)];
  std::erase_if(rows,
                [&](const MeasuredRow& row) { return counts.at(feature_of(row, *level_of)) < 2; });
  return rows;
}

// A fit needs several rows per constant, and sources that can be left out one after the other to
// estimate the spread.
void refuse_unsupported(const std::vector<MeasuredRow>& rows, std::size_t constants,
                        const CalibrateOptions& options) {
  const Feature left_out = options.left_out;
  std::set<std::string> sources;
  for (const MeasuredRow& row : rows) sources.insert(feature_of(row, left_out));
  const auto fail = [](std::string problem, std::string hint) {
    throw InputError(Problem{"--constants", "", std::move(problem), std::move(hint)});
  };
  if (rows.size() < kRowsPerConstant * constants) {
    const std::string level_rows =
        options.level_of ? fmt::format(" with equal {}", to_string(*options.level_of)) : "";
    fail(fmt::format("{} rows{} do not support {} constants", rows.size(), level_rows, constants),
         fmt::format("each needs {} rows", kRowsPerConstant));
  }
  if (sources.size() < 2 || sources.size() < constants) {
    const std::string_view kind = to_string(left_out);
    fail(fmt::format("rows of {} {}s do not support {} constants", sources.size(), kind, constants),
         fmt::format("cross-validation leaves a {0} out: take rows of more {0}s, at least two",
                     kind));
  }
}

// The rows of the linearised fit. The slope of a row in a constant is the logarithmic derivative of
// its predicted time, by a finite difference: one simulation of all rows for each constant.
std::vector<FitRow> fit_rows(const std::vector<MeasuredRow>& rows,
                             const std::vector<Setting>& settings, const std::vector<Outcome>& here,
                             const CalibrateOptions& options) {
  std::vector<FitRow> fits;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    fits.push_back(
        {.source = feature_of(rows[r], options.left_out), .residual = std::log1p(here[r].error())});
  }
  for (std::size_t i = 0; i < settings.size(); ++i) {
    std::vector<Setting> probe = settings;
    probe[i].value *= kProbe;
    const std::vector<Outcome> there = outcomes_at(rows, probe, options);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      fits[r].slopes.push_back(std::log(there[r].predicted_s / here[r].predicted_s) /
                               std::log(kProbe));
    }
  }
  if (!options.level_of) return fits;
  std::vector<std::string> levels;
  for (const MeasuredRow& row : rows) levels.push_back(feature_of(row, *options.level_of));
  return without_levels(fits, levels);
}

std::string constants_text(const Calibration& calibration) {
  TextTable table({"constant", "was", "fitted", "95 % from", "to"});
  for (std::size_t i = 0; i < calibration.settings.size(); ++i) {
    const Setting& setting = calibration.settings[i];
    const double reach = std::exp(kConfidence * calibration.fit.spread[i]);
    const auto shown = [&](double value) {
      return fmt::format("{:.4g}{}", value, setting.constant.unit);
    };
    table.row({setting.constant.name, shown(setting.constant.value), shown(setting.value),
               shown(setting.value / reach), shown(setting.value * reach)});
  }
  return table.text();
}

std::string sources_text(const Calibration& calibration) {
  TextTable table({"left out", "rows", "MAPE before", "fitted with it", "fitted without it"});
  double before = 0.0, within = 0.0, without = 0.0, rows = 0.0;
  for (const SourceCheck& check : calibration.fit.sources) {
    table.row({check.source, fmt::format("{}", check.rows), percent(check.before),
               percent(check.within), percent(check.without)});
    const auto count = static_cast<double>(check.rows);
    before += count * check.before;
    within += count * check.within;
    without += count * check.without;
    rows += count;
  }
  table.row({"all", fmt::format("{}", calibration.rows), percent(before / rows),
             percent(within / rows), percent(without / rows)});
  return table.text();
}

// The value of each constant when one source is left out, as data/left_out.json stores it. The last
// round began at the fitted value over the factor of all rows; the fit without the source
// multiplies that by its own factor.
std::string values_without_text(const Calibration& calibration) {
  std::vector<std::string> head = {"left out"};
  for (const Setting& setting : calibration.settings) head.push_back(setting.constant.pointer);
  TextTable table(head);
  for (const SourceCheck& check : calibration.fit.sources) {
    std::vector<std::string> row = {check.source};
    for (std::size_t i = 0; i < calibration.settings.size(); ++i)
      row.push_back(fmt::format(
          "{:.4g}", calibration.settings[i].value * check.factors[i] / calibration.fit.factors[i]));
    table.row(row);
  }
  return table.text();
}

}  // namespace

Calibration calibrate(const std::vector<MeasuredRow>& all, const std::vector<Constant>& constants,
                      const CalibrateOptions& options) {
  Calibration result;
  for (const Constant& constant : constants) {
    result.settings.push_back({.constant = constant, .value = constant.value});
  }
  const std::vector<MeasuredRow> rows =
      rows_with_shared_levels(predicted_rows(validate(all, options.validate)), options.level_of);
  refuse_unsupported(rows, constants.size(), options);
  result.rows = rows.size();
  result.before = outcomes_at(rows, result.settings, options);
  result.after = result.before;
  for (std::size_t round = 0; round < options.rounds; ++round) {
    // The slopes hold only near the values at which they were measured. Each round therefore
    // measures them anew, and changes no constant by more than kFactorMost.
    const std::vector<FitRow> fits = fit_rows(rows, result.settings, result.after, options);
    result.fit = fit_constants(fits, names_of(result.settings), options.scale);
    for (std::size_t i = 0; i < result.settings.size(); ++i) {
      result.settings[i].value *= std::clamp(result.fit.factors[i], 1.0 / kFactorMost, kFactorMost);
    }
    result.after = outcomes_at(rows, result.settings, options);
  }
  return result;
}

std::string calibration_text(const Calibration& calibration) {
  const Score before = score_of_all(calibration.before).score;
  const Score after = score_of_all(calibration.after).score;
  std::string text = constants_text(calibration) + "\n";
  text += "Last round, to first order; each left out once\n" + sources_text(calibration);
  text += "\nThe constants as fitted without it\n" + values_without_text(calibration);
  return text + fmt::format("\nSimulated on {} rows: MAPE {} -> {}, bias {} -> {}, p90 {} -> {}\n",
                            calibration.rows, percent(before.mape), percent(after.mape),
                            signed_percent(before.bias), signed_percent(after.bias),
                            percent(before.p90), percent(after.p90));
}

}  // namespace trainyard
