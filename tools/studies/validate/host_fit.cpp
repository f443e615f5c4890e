#include "tools/studies/validate/host_fit.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/gpu.hpp"
#include "models/host.hpp"
#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/interference.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/engine/engine.hpp"
#include "sim/nccl/fit/least_squares.hpp"
#include "tools/studies/validate/row_scenario.hpp"
#include "tools/studies/validate/row_tables.hpp"

namespace trainyard {

struct PreparedStep {
  Scenario scenario;
  Result run;
  std::vector<double> kernel_seconds;
  std::vector<std::vector<double>> compute_loss;
  double measured_s = 0.0;
};

namespace {

constexpr double kScale = 0.1;  // errors beyond it no longer count as squares

std::unique_ptr<PreparedStep> prepare(const RowTables& tables, const MeasuredRow& row) {
  auto step = std::make_unique<PreparedStep>();
  auto document = row_scenario(tables, row);
  document["engine"] = "ideal";
  document["host"] = "none";
  step->scenario = read_scenario_document(row.id, document);
  step->run = simulate(step->scenario, {});
  step->run.timeline = {};
  for (const Cost& cost : step->run.kernel_costs) step->kernel_seconds.push_back(cost.time.value());
  step->compute_loss =
      compute_losses(*step->run.cluster, *step->run.workload, *step->run.partition,
                     *step->run.carriers, load_gpu_sheet(step->run.cluster->facts().gpu));
  step->measured_s = row.step_time_s;
  return step;
}

HostCosts with(HostCosts costs, double microseconds) {
  const double backward_share = costs.backward_kernel / costs.forward_kernel;
  costs.forward_kernel = Seconds{microseconds * 1e-6};
  costs.backward_kernel = costs.forward_kernel * backward_share;
  return costs;
}

}  // namespace

HostRows::HostRows() = default;
HostRows::~HostRows() = default;
HostRows::HostRows(HostRows&&) noexcept = default;
HostRows& HostRows::operator=(HostRows&&) noexcept = default;

double HostRows::ratio(std::size_t row, const HostCosts& costs) const {
  const PreparedStep& step = *steps_.at(row);
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

HostRows prepare_host_rows(const std::vector<MeasuredRow>& rows, std::size_t stride) {
  TY_CHECK(stride > 0, stride);
  const RowTables tables = load_row_tables();
  HostRows prepared;
  for (std::size_t row = 0; row < rows.size(); row += stride) {
    if (!(rows[row].step_time_s > 0.0)) continue;
    try {
      prepared.steps_.push_back(prepare(tables, rows[row]));
    } catch (const InputError&) {
      // `trainyard validate` names it. Where no row can be simulated the fault is not the rows'.
      ++prepared.refused_;
      if (row + stride >= rows.size() && prepared.steps_.empty()) throw;
    }
  }
  return prepared;
}

RowChoice every_row(const HostRows& rows) {
  RowChoice choice(rows.size());
  std::iota(choice.begin(), choice.end(), std::size_t{0});
  return choice;
}

RowChoice part_of(const HostRows& rows, std::size_t part, std::size_t parts, bool others) {
  RowChoice choice;
  for (std::size_t row = 0; row < rows.size(); ++row)
    if ((row % parts == part) != others) choice.push_back(row);
  return choice;
}

HostCosts fit_host(const HostRows& rows, const RowChoice& chosen, const HostCosts& start) {
  const auto residuals = [&](const std::vector<double>& microseconds) {
    const HostCosts costs = with(start, microseconds.at(0));
    std::vector<double> errors;
    errors.reserve(chosen.size());
    for (const std::size_t row : chosen) errors.push_back(std::log(rows.ratio(row, costs)));
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
    const double error = rows.ratio(row, costs) - 1.0;
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

}  // namespace trainyard
