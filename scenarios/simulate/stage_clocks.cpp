#include "scenarios/simulate/stage_clocks.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/report/energy_figures.hpp"

namespace trainyard {

namespace {

using Clocks = std::vector<std::int64_t>;  // percent of the full clock, by stage
using Stages = std::vector<std::size_t>;

// Stages have one clock where their times of computation differ by less.
constexpr double kEqualTimes = 0.01;
// Halvings of the way from full clocks to the estimated ones; more are below a percent of a clock.
constexpr int kHalvings = 6;
constexpr int kParts = 8;  // points that are tried between full and lowest clocks
// Rounding in the sums of a run is no growth of the step.
constexpr double kRounding = 1e-9;

// Returns the time that each stage computes, on the slowest of its ranks.
std::vector<double> compute_s(const Result& run) {
  std::vector<double> busy_s;
  for (std::size_t index = 0; index < run.partition->ranks.size(); ++index) {
    const Program& program = run.workload->programs[run.partition->ranks[index].program];
    const OpTimes& times = run.timeline.classes[index];
    double sum_s = 0.0;
    for (OpIndex op = 0; const Operation& operation : program.operations) {
      if (operation.kind == OpKind::Compute) sum_s += times.end_s[op] - times.start_s[op];
      ++op;
    }
    if (busy_s.size() <= program.stage) busy_s.resize(program.stage + std::size_t{1}, 0.0);
    busy_s[program.stage] = std::max(busy_s[program.stage], sum_s);
  }
  return busy_s;
}

// Groups stages that compute equally long, those that compute least first.
std::vector<Stages> equal_stages(const std::vector<double>& busy_s) {
  Stages order(busy_s.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t stage) { return busy_s[stage]; });
  std::vector<Stages> groups;
  for (const std::size_t stage : order) {
    const bool joins =
        !groups.empty() && busy_s[stage] <= (1.0 + kEqualTimes) * busy_s[groups.back().front()];
    if (!joins) groups.emplace_back();
    groups.back().push_back(stage);
  }
  return groups;
}

double joules(const Result& run) { return energy_figures(run.view()).step.total(); }

// Keeps the run with the least energy among those within the tolerance. Below some clock a stage
// takes more energy again, because its longer time costs static power.
class ClockSearch {
 public:
  ClockSearch(const Scenario& scenario, const std::function<Result(const Scenario&)>& simulate)
      : simulate_(simulate), scenario_(scenario), tolerance_(*scenario.power->clock_tolerance) {
    scenario_.power->clock_tolerance.reset();
    run_ = simulate_(scenario_);
    least_j_ = full_j_ = joules(run_);
    full_s_ = run_.view().step_s();
    busy_s_ = compute_s(run_);
    clocks_ = Clocks(busy_s_.size(), kFullClock);
  }

  [[nodiscard]] Result result() {
    lower_together();
    for (const Stages& stages : equal_stages(busy_s_)) lower(stages);
    run_.facts.clocks = ClockFacts{.percent = clocks_,
                                   .tolerance = tolerance_,
                                   .full_step_s = full_s_,
                                   .full_step_j = full_j_};
    return std::move(run_);
  }

 private:
  // Simulates other clocks. Returns whether the step keeps the tolerance; the run with the least
  // energy is kept.
  bool keeps_tolerance(const Clocks& clocks) {
    if (clocks == clocks_) return true;
    scenario_.power->stage_clocks = clocks;
    Result run = simulate_(scenario_);
    if (run.view().step_s() > full_s_ * (1.0 + tolerance_ + kRounding)) return false;
    const double run_j = joules(run);
    if (run_j < least_j_) {
      least_j_ = run_j;
      clocks_ = clocks;
      run_ = std::move(run);
    }
    return true;
  }

  // Lowers all clocks towards those at which every stage computes as long as the tolerance lets the
  // slowest one compute, as far as the step keeps it. At a tolerance of 2 % the clock of a
  // stage that computes half as long as the slowest is 0.5 / 1.02, rounded up to 50 %.
  void lower_together() {
    const double slowest_s = *std::ranges::max_element(busy_s_);
    const auto part_of_the_way = [&](double part) {
      Clocks clocks;
      for (const double busy_s : busy_s_) {
        const double target = busy_s / (slowest_s * (1.0 + tolerance_));
        const double percent = static_cast<double>(kFullClock) * (1.0 - part * (1.0 - target));
        clocks.push_back(
            std::clamp(static_cast<std::int64_t>(std::ceil(percent)), kLeastClock, kFullClock));
      }
      return clocks;
    };
    if (!(slowest_s > 0.0)) return;
    double good = keeps_tolerance(part_of_the_way(1.0)) ? 1.0 : 0.0;
    double bad = 1.0;
    for (int i = 0; good < bad && i < kHalvings; ++i) {
      const double part = 0.5 * (good + bad);
      (keeps_tolerance(part_of_the_way(part)) ? good : bad) = part;
    }
    // The least energy may lie before the end of what the tolerance allows.
    for (int i = 1; i < kParts; ++i) (void)keeps_tolerance(part_of_the_way(good * i / kParts));
  }

  // Lowers the clock of these stages, which is one, as far as the step keeps the tolerance and
  // takes less energy.
  void lower(const Stages& stages) {
    std::int64_t good = clocks_[stages.front()];
    std::int64_t bad = kLeastClock - 1;
    while (good - bad > 1) {
      const std::int64_t clock = (good + bad) / 2;
      Clocks clocks = clocks_;
      for (const std::size_t stage : stages) clocks[stage] = clock;
      const double before_j = least_j_;
      (keeps_tolerance(clocks) && least_j_ < before_j ? good : bad) = clock;
    }
  }

  const std::function<Result(const Scenario&)>& simulate_;
  Scenario scenario_;  // with the clocks that were simulated last
  double tolerance_;
  double full_s_ = 0.0;  // the step at full clocks
  double full_j_ = 0.0;
  std::vector<double> busy_s_ = {};  // time of computation at full clocks, by stage
  Clocks clocks_ = {};               // of the best run
  Result run_ = {};                  // the best so far
  double least_j_ = 0.0;             // its energy
};

}  // namespace

Result simulate_lower_clocks(const Scenario& scenario,
                             const std::function<Result(const Scenario&)>& simulate) {
  return ClockSearch(scenario, simulate).result();
}

}  // namespace trainyard
