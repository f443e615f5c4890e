// fit_host TABLE HOST [STRIDE]: fits the kernel issue times of a CPU to measured steps that are
// limited by it, and prints the errors of the fit.
//
//    fit_host measured/training/vtrain_single.csv eager 3
//
// It reads every STRIDE-th row of a table of measured steps (tools/studies/validate/dataset.hpp),
// starts from a host of models/hosts, and prints the fitted constants in microseconds, their
// errors, and the errors on fifths of the rows that were left out of the fit.
//
// The step of a row is lowered, folded and priced once. Only the replay is repeated with other
// issue times. One constant is fitted: the seconds of a forward kernel. A backward kernel keeps its
// ratio to it, because steps that all recompute every layer issue both in a fixed proportion and
// cannot separate them. A collective keeps its cost: a layer has four to six collectives and about
// forty kernels, and a free fit of their cost ends at zero. All other parts of the prediction stay
// unchanged.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/gpu.hpp"
#include "models/host.hpp"
#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/interference.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"
#include "sim/engine/engine.hpp"
#include "sim/nccl/fit/least_squares.hpp"
#include "tools/studies/validate/dataset.hpp"
#include "tools/studies/validate/row_scenario.hpp"

namespace {

using namespace trainyard;

constexpr std::size_t kFolds = 5;
constexpr double kScale = 0.1;  // errors beyond it no longer count as squares

// The step of a row, ready for a replay.
struct PreparedStep {
  Scenario scenario;
  Result run;
  std::vector<double> kernel_seconds;
  std::vector<std::vector<double>> compute_loss;
  double measured_s = 0.0;
};

struct HostRows {
  std::vector<PreparedStep> steps;
  std::size_t refused = 0;  // rows that no scenario can express
};
using RowChoice = std::vector<std::size_t>;  // indices into HostRows::steps

struct HostErrors {
  std::size_t rows = 0;
  double mape = 0.0;    // mean of |predicted / measured - 1|
  double median = 0.0;  // median of |predicted / measured - 1|
  double bias = 0.0;    // mean of predicted / measured - 1
};

PreparedStep prepare(const RowTables& tables, const MeasuredRow& row) {
  PreparedStep step;
  auto document = row_scenario(tables, row);
  // Everything but the host is prepared here. `ratio` gives the host to each replay.
  document["engine"] = "ideal";
  document["host"] = "none";
  step.scenario = read_scenario_document(row.id, document);
  step.run = simulate(step.scenario, {});
  step.run.timeline = {};
  for (const Cost& cost : step.run.kernel_costs) step.kernel_seconds.push_back(cost.time.value());
  step.compute_loss =
      compute_losses(*step.run.cluster, *step.run.workload, *step.run.partition,
                     *step.run.selected_algorithms, load_gpu_sheet(step.run.cluster->facts().gpu));
  step.measured_s = row.step_time_s;
  return step;
}

// The predicted time of a step under a host, divided by its measured time.
double ratio(const PreparedStep& step, const HostCosts& costs) {
  const std::vector<HostLane> hosts =
      host_lanes(*step.run.workload, costs, host_habits(step.scenario.plan.parallelism));
  const Timeline timeline = make_engine("ideal")->run({.cluster = *step.run.cluster,
                                                       .workload = *step.run.workload,
                                                       .partition = *step.run.partition,
                                                       .kernel_seconds = step.kernel_seconds,
                                                       .progress = {},
                                                       .compute_loss = step.compute_loss,
                                                       .hosts = hosts});
  return timeline.makespan_s / step.measured_s;
}

// Prepares every `stride`-th row that can be simulated. Throws InputError if none can.
HostRows prepare_host_rows(const std::vector<MeasuredRow>& rows, std::size_t stride) {
  const RowTables tables = load_row_tables();
  HostRows prepared;
  for (std::size_t row = 0; row < rows.size(); row += stride) {
    if (!(rows[row].step_time_s > 0.0)) continue;
    try {
      prepared.steps.push_back(prepare(tables, rows[row]));
    } catch (const InputError&) {
      // `trainyard validate` reports the row. If no row can be simulated, the error does not come
      // from the rows and is thrown.
      ++prepared.refused;
      if (row + stride >= rows.size() && prepared.steps.empty()) throw;
    }
  }
  return prepared;
}

HostCosts with(HostCosts costs, double microseconds) {
  const double backward_share = costs.backward_kernel / costs.forward_kernel;
  costs.forward_kernel = Seconds{microseconds * 1e-6};
  costs.backward_kernel = costs.forward_kernel * backward_share;
  return costs;
}

// The constant that fits the chosen rows best, by robust least squares on logarithms. The fit
// starts at `start`, whose other values are kept.
HostCosts fit_host(const HostRows& rows, const RowChoice& chosen, const HostCosts& start) {
  const auto residuals = [&](const std::vector<double>& microseconds) {
    const HostCosts costs = with(start, microseconds.at(0));
    std::vector<double> errors;
    errors.reserve(chosen.size());
    for (const std::size_t row : chosen)
      errors.push_back(std::log(ratio(rows.steps.at(row), costs)));
    return errors;
  };
  const std::vector<double> best =
      nccl::fit::fit_positive({start.forward_kernel.value() * 1e6}, residuals, {.scale = kScale});
  return with(start, best.at(0));
}

HostErrors host_errors(const HostRows& rows, const RowChoice& chosen, const HostCosts& costs) {
  HostErrors errors{.rows = chosen.size()};
  if (chosen.empty()) return errors;
  std::vector<double> sizes;
  for (const std::size_t row : chosen) {
    const double error = ratio(rows.steps.at(row), costs) - 1.0;
    sizes.push_back(std::abs(error));
    errors.bias += error / static_cast<double>(chosen.size());
  }
  errors.mape =
      std::accumulate(sizes.begin(), sizes.end(), 0.0) / static_cast<double>(sizes.size());
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  errors.median = *middle;
  return errors;
}

std::string to_text(const HostErrors& errors) {
  return fmt::format("{} rows, MAPE {:.2f} %, median {:.2f} %, bias {:+.2f} %", errors.rows,
                     100.0 * errors.mape, 100.0 * errors.median, 100.0 * errors.bias);
}

std::string to_text(const HostCosts& costs) {
  return fmt::format("forward kernel {:.2f} us, backward kernel {:.2f} us, collective {:.2f} us",
                     costs.forward_kernel.value() * 1e6, costs.backward_kernel.value() * 1e6,
                     costs.collective.value() * 1e6);
}

void fit(const HostRows& rows, const HostCosts& start) {
  RowChoice all(rows.steps.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (rows.refused > 0) fmt::print("{} rows that no scenario expresses\n", rows.refused);
  fmt::print("as shipped: {}\n  {}\n", to_text(start), to_text(host_errors(rows, all, start)));
  const HostCosts fitted = fit_host(rows, all, start);
  fmt::print("fitted: {}\n  {}\n", to_text(fitted), to_text(host_errors(rows, all, fitted)));
  std::fflush(stdout);
  double mape = 0.0;
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    RowChoice kept, left;
    for (const std::size_t row : all) (row % kFolds == fold ? left : kept).push_back(row);
    const HostErrors left_out = host_errors(rows, left, fit_host(rows, kept, fitted));
    mape += left_out.mape / static_cast<double>(kFolds);
    fmt::print("left out, fifth {}: {}\n", fold + 1, to_text(left_out));
  }
  fmt::print("left out, all fifths: MAPE {:.2f} %\n", 100.0 * mape);
}

}  // namespace

int main(int count, char** values) {
  const std::span<char*> arguments(values, static_cast<std::size_t>(count));
  const std::size_t stride =
      arguments.size() == 4 ? std::strtoul(arguments[3], nullptr, 10) : std::size_t{1};
  if (arguments.size() < 3 || arguments.size() > 4 || stride == 0) {
    fmt::print(stderr, "usage: fit_host TABLE HOST [STRIDE]\n");
    return 2;
  }
  try {
    fit(prepare_host_rows(read_dataset(arguments[1]), stride), load_host_costs(arguments[2]));
  } catch (const InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}
