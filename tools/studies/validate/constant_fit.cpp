#include "tools/studies/validate/constant_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

constexpr int kRounds = 50;            // of reweighting
constexpr double kTellable = 1e-3;     // a pivot below this share of the first tells nothing
constexpr double kSlopeLeast = 0.005;  // of the mean: half a percent of the time

using Matrix = std::vector<std::vector<double>>;

[[noreturn]] void refuse(const std::string& name, const std::string& problem) {
  throw InputError(Problem{"--constants", "", fmt::format("{} {}", name, problem),
                           "fit fewer constants, or choose rows that depend on them"});
}

// Solves A x = b for a symmetric positive A by Gaussian elimination in order.
std::vector<double> solved(Matrix a, std::vector<double> b, const std::vector<std::string>& names) {
  const std::size_t size = b.size();
  std::vector<double> diagonal(size);
  for (std::size_t i = 0; i < size; ++i) diagonal[i] = a[i][i];
  for (std::size_t i = 0; i < size; ++i) {
    if (!(a[i][i] > kTellable * diagonal[i])) {
      refuse(names[i], "cannot be told from the constants before it by these rows");
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

// A series of n rows counts as sqrt(n) independent ones.
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

void refuse_idle(const std::vector<FitRow>& rows, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    double mean = 0.0;
    for (const FitRow& row : rows) mean += std::abs(row.slopes[i]);
    if (mean < kSlopeLeast * static_cast<double>(rows.size())) {
      refuse(names[i], "hardly moves these rows");
    }
  }
}

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
  std::vector<FitRow> told;
  for (auto& [level, alike] : members) {
    if (alike.size() < 2) continue;
    const auto centre = [&alike = alike](const auto& value_of) {
      double sum = 0.0;
      for (FitRow& row : alike) sum += value_of(row);
      for (FitRow& row : alike) value_of(row) -= sum / static_cast<double>(alike.size());
    };
    centre([](FitRow& row) -> double& { return row.residual; });
    for (std::size_t i = 0; i < alike.front().slopes.size(); ++i)
      centre([i](FitRow& row) -> double& { return row.slopes[i]; });
    told.insert(told.end(), alike.begin(), alike.end());
  }
  return told;
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
  const auto count = static_cast<double>(series.size());
  for (const double square : squares) {
    fit.spread.push_back(std::sqrt((count - 1.0) / count * square));
  }
  return fit;
}

}  // namespace trainyard
