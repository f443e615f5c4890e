#include "scenarios/simulate/own_pace.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <utility>

#include "scenarios/simulate/approximations.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

constexpr std::uint8_t kComputeStream = 0;
// The limit of iterations. The second pace differs from the first by at most a step.
constexpr std::uint32_t kPacesTaken = 4;

// Returns the steps made by a date, with the fraction of the step in progress.
double made_by(const std::vector<double>& ends, double date_s) {
  const auto next = std::ranges::upper_bound(ends, date_s);
  const auto made = static_cast<double>(next - ends.begin());
  if (next == ends.end()) return made;
  const double since_s = next == ends.begin() ? 0.0 : *(next - 1);
  return made + (date_s - since_s) / (*next - since_s);
}

// Returns paces in millionths of the fastest worker's, so that equally fast workers have equal
// paces in spite of rounding in the run.
std::vector<std::uint64_t> paces(std::span<const std::vector<double>> ends) {
  double first_s = std::numeric_limits<double>::infinity();
  for (const std::vector<double>& worker : ends) first_s = std::min(first_s, worker.back());
  std::vector<double> made;
  for (const std::vector<double>& worker : ends) made.push_back(made_by(worker, first_s));
  const double most = *std::ranges::max_element(made);
  std::vector<std::uint64_t> result;
  for (const double steps : made) {
    constexpr double kMillion = 1e6;
    result.push_back(std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(std::llround(kMillion * steps / most))));
  }
  return result;
}

}  // namespace

std::vector<std::vector<double>> step_ends(const Result& run, const TrainingPlan& plan) {
  const std::int64_t microbatches = plan.microbatches();
  std::vector<std::vector<double>> ends;
  for (RankId worker = 0; worker < static_cast<RankId>(plan.parallelism.data); ++worker) {
    const std::uint32_t rank_class = run.partition->class_of_rank[worker];
    const Program& program = run.workload->programs[run.partition->ranks[rank_class].program];
    const OpTimes& times = run.timeline.classes[rank_class];
    std::vector<double>& own = ends.emplace_back();
    OpIndex next = 0;
    for (const Operation& operation : program.operations) {
      const OpIndex op = next++;
      if (operation.kind != OpKind::Compute || operation.stream != kComputeStream) continue;
      // Microbatches are numbered on over the steps of a worker.
      own.resize(static_cast<std::size_t>(operation.microbatch / microbatches) + 1);
      own.back() = times.end_s[op];
    }
    TY_CHECK(!own.empty(), worker);
  }
  return ends;
}

// Gives one step after another to the worker that finishes it first. The dates are compared
// exactly, as products of integers.
std::vector<std::uint32_t> divide_steps(std::span<const std::vector<double>> ends,
                                        std::uint64_t total,
                                        std::optional<std::uint32_t> staleness) {
  TY_CHECK(!ends.empty() && total >= ends.size(), ends.size(), total);
  const std::vector<std::uint64_t> pace = paces(ends);
  std::vector<std::uint32_t> steps(ends.size(), 1);
  // Worker a ends its next step at (steps[a] + 1) / pace[a]. Ties go to the lower number.
  const auto later = [&](std::size_t a, std::size_t b) {
    const std::uint64_t date_a = (steps[a] + 1) * pace[b];
    const std::uint64_t date_b = (steps[b] + 1) * pace[a];
    return date_a != date_b ? date_a > date_b : a > b;
  };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> next(later);
  for (std::size_t worker = 0; worker < steps.size(); ++worker) next.push(worker);
  std::vector<std::size_t> held;  // workers that wait until the slowest make their next step
  std::uint64_t least = 1;
  std::size_t slowest = steps.size();  // number of workers with the least steps
  for (std::uint64_t made = ends.size(); made < total; ++made) {
    const std::size_t worker = next.top();
    next.pop();
    // The last worker with the least steps has made one more, so the bound rises by a step and
    // frees the workers that wait for it.
    if (steps[worker]++ == least && --slowest == 0) {
      ++least;
      slowest = static_cast<std::size_t>(std::ranges::count(steps, least));
      for (const std::size_t one : held) next.push(one);
      held.clear();
    }
    if (staleness && steps[worker] > least + *staleness)
      held.push_back(worker);
    else
      next.push(worker);
  }
  return steps;
}

Result simulate_at_own_pace(const Scenario& scenario,
                            const std::function<Result(const Scenario&)>& simulate) {
  Scenario paced = scenario;
  ParameterServers& servers = paced.plan.servers;
  servers.steps_of_worker.clear();
  std::optional<std::uint32_t> staleness;
  if (!servers.asynchronous) staleness = static_cast<std::uint32_t>(servers.staleness);
  const auto workers = static_cast<std::size_t>(paced.plan.parallelism.data);
  const auto steps = static_cast<std::uint32_t>(servers.steps);
  std::vector<std::uint32_t> made(workers, steps);
  Result result = simulate(paced);
  for (std::uint32_t iteration = 0; iteration < kPacesTaken; ++iteration) {
    std::vector<std::uint32_t> own =
        divide_steps(step_ends(result, paced.plan), std::uint64_t{steps} * workers, staleness);
    if (own == made) break;
    servers.steps_of_worker = made = std::move(own);
    result = simulate(paced);
  }
  for (Approximation& found : pace_approximations(made))
    result.facts.approximations.push_back(std::move(found));
  return result;
}

}  // namespace trainyard
