#include "tools/studies/jobs/shift.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/units.hpp"
#include "sim/render/text_table.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// A gain below this is the rounding of times.
constexpr double kGain = 1e-9;

ShiftTrial trial_of(const Jobs& jobs, const JobsOptions& options, Memo& memo) {
  const JobsResult result = simulate_jobs(jobs, options, memo);
  ShiftTrial trial;
  const bool trains =
      std::ranges::any_of(jobs.all, [](const JobSpec& job) { return job.scenario.has_value(); });
  double gpus = 0.0;
  for (std::size_t i = 0; i < jobs.all.size(); ++i) {
    trial.starts_s.push_back(jobs.all[i].start.value());
    trial.priorities.push_back(jobs.all[i].priority);
    trial.slowdowns.push_back(result.jobs[i].slowdown());
    // Traffic is there to disturb the jobs that train, so its own slowdown is no aim.
    if (trains && !jobs.all[i].scenario) continue;
    const auto share = static_cast<double>(result.jobs[i].gpus.size());
    gpus += share;
    trial.mean_slowdown += share * trial.slowdowns.back();
  }
  trial.mean_slowdown /= gpus;
  return trial;
}

// Simulates the jobs with changes, and keeps the best.
class Search {
 public:
  Search(const Jobs& jobs, const JobsOptions& options, Memo& memo)
      : options_(options), memo_(memo) {
    found_.best = jobs;
    found_.trials.push_back(trial_of(jobs, options, memo));
  }

  void consider(const Jobs& jobs) {
    found_.trials.push_back(trial_of(jobs, options_, memo_));
    const double best = found_.trials[found_.best_trial].mean_slowdown;
    if (found_.trials.back().mean_slowdown > best - kGain) return;
    found_.best_trial = found_.trials.size() - 1;
    found_.best = jobs;
  }

  [[nodiscard]] const Jobs& best() const { return found_.best; }
  [[nodiscard]] ShiftSearch found() { return std::move(found_); }

 private:
  const JobsOptions& options_;
  Memo& memo_;
  ShiftSearch found_;
};

}  // namespace

// The search is greedy, job by job: with n jobs and p starts it simulates at most (n - 1) p times
// and not p^(n - 1) times. The first job stays, since only differences of starts matter.
ShiftSearch search_starts(const Jobs& jobs, std::uint32_t points, const JobsOptions& options,
                          Memo& memo) {
  const JobsResult together = simulate_jobs(jobs, options, memo);
  Search search(jobs, options, memo);
  for (std::size_t job = 1; job < jobs.all.size(); ++job) {
    const Jobs base = search.best();
    for (std::uint32_t point = 0; point < points; ++point) {
      Jobs shifted = base;
      shifted.all[job].start = Seconds{together.jobs[job].alone_s * point / points};
      if (shifted.all[job].start != base.all[job].start) search.consider(shifted);
    }
  }
  return search.found();
}

// Equal shares are a trial too, so a file with other shares may fall back to them.
ShiftSearch search_priorities(const Jobs& jobs, double weight, const JobsOptions& options,
                              Memo& memo) {
  Jobs equal = jobs;
  for (JobSpec& job : equal.all) job.priority = 1.0;
  Search search(jobs, options, memo);
  search.consider(equal);
  for (std::size_t job = 0; job < jobs.all.size(); ++job) {
    Jobs changed = equal;
    changed.all[job].priority = weight;
    search.consider(changed);
  }
  return search.found();
}

std::string shift_text(const ShiftSearch& search) {
  TextTable table({"", "starts", "priorities", "slowdowns", "mean"});
  for (std::size_t i = 0; i < search.trials.size(); ++i) {
    const ShiftTrial& trial = search.trials[i];
    std::vector<std::string> starts;
    for (const double start_s : trial.starts_s) starts.push_back(to_text(Seconds{start_s}));
    std::vector<std::string> slowdowns;
    for (const double slowdown : trial.slowdowns)
      slowdowns.push_back(fmt::format("{:.3f}", slowdown));
    table.row({i == search.best_trial ? "best" : (i == 0 ? "as given" : ""),
               fmt::format("{}", fmt::join(starts, ", ")),
               fmt::format("{}", fmt::join(trial.priorities, ", ")),
               fmt::format("{}", fmt::join(slowdowns, ", ")),
               fmt::format("{:.3f} x", trial.mean_slowdown)});
  }
  return table.text();
}

Json shift_json(const ShiftSearch& search) {
  Json trials = Json::array();
  for (const ShiftTrial& trial : search.trials)
    trials.push_back({{"starts_s", trial.starts_s},
                      {"priorities", trial.priorities},
                      {"slowdowns", trial.slowdowns},
                      {"mean_slowdown", trial.mean_slowdown}});
  return {{"trials", std::move(trials)}, {"best", search.best_trial}};
}

}  // namespace trainyard
