#include "scenarios/jobs/repetition.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trainyard {

namespace {

// Dates that belong to equal states differ by rounding to ticks alone.
constexpr double kSameDate = 1e-10;  // of the time between the two dates

// The rank classes of a job, and the ends of its steps.
struct JobTimes {
  const JobPart* part = nullptr;
  std::vector<std::pair<std::uint32_t, const OpTimes*>> classes;  // program of the job, times
  std::vector<double> ends_s;

  // Returns the number of steps that have ended at the date, with that of its own end.
  [[nodiscard]] std::uint32_t ended_at(double date_s) const {
    return static_cast<std::uint32_t>(std::ranges::upper_bound(ends_s, date_s) - ends_s.begin());
  }
  // Returns when a step began; the clock's start for the first one, whatever its delay.
  [[nodiscard]] double begin_of(std::uint32_t step) const {
    return step == 0 ? 0.0 : ends_s[step - 1];
  }
};

std::vector<JobTimes> times_of(std::span<const JobPart> jobs, const Partition& partition,
                               const Timeline& timeline) {
  std::vector<JobTimes> all(jobs.size());
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    const JobPart& part = jobs[job];
    all[job].part = &part;
    for (std::size_t i = 0; i < partition.ranks.size(); ++i) {
      const std::uint32_t program = partition.ranks[i].program;
      if (program < part.first_program || program >= part.first_program + part.programs) continue;
      all[job].classes.emplace_back(program - part.first_program, &timeline.classes[i]);
    }
    const auto& [program, times] = all[job].classes.front();
    for (std::uint32_t step = 0; step < part.steps; ++step)
      all[job].ends_s.push_back(times->end_s[part.step(program, step).rendezvous]);
  }
  return all;
}

// Compares the states at two dates.
class StateComparison {
 public:
  StateComparison(const std::vector<JobTimes>& jobs, double early_s, double late_s)
      : jobs_(jobs), early_s_(early_s), late_s_(late_s), slack_s_(kSameDate * (late_s - early_s)) {}

  [[nodiscard]] bool same() {
    // The ages of the steps that run at both dates must agree. The oldest of them begins the
    // window, and within the window all that has happened must agree.
    for (const JobTimes& job : jobs_) {
      const std::uint32_t early = job.ended_at(early_s_ + slack_s_);
      const std::uint32_t late = job.ended_at(late_s_ + slack_s_);
      if (late >= job.part->steps) return false;  // it has no further step
      const double age_s = late_s_ - job.begin_of(late);
      if (!near(early_s_ - job.begin_of(early), age_s)) return false;
      window_s_ = std::max(window_s_, age_s);
      alive_.emplace_back(early, late);
    }
    for (std::size_t job = 0; job < jobs_.size(); ++job)
      if (!same_history(jobs_[job], alive_[job].first, alive_[job].second)) return false;
    return true;
  }

 private:
  [[nodiscard]] bool near(double a, double b) const { return std::abs(a - b) <= slack_s_; }

  // Returns the distance of a date from the state. All dates before the window have the length of
  // the window, and all dates after the state have 0: neither are part of the state.
  [[nodiscard]] double distance(double date_s, double state_s) const {
    return std::clamp(state_s - date_s, 0.0, window_s_);
  }

  // Compares the steps that the window of each date has a part of, the last one first.
  [[nodiscard]] bool same_history(const JobTimes& job, std::uint32_t early,
                                  std::uint32_t late) const {
    while (same_step(job, early, late)) {
      if (late == 0 || job.begin_of(late) <= late_s_ - window_s_ + slack_s_) return true;
      if (early == 0) return false;
      --early;
      --late;
    }
    return false;
  }

  [[nodiscard]] bool same_step(const JobTimes& job, std::uint32_t early, std::uint32_t late) const {
    const auto same = [&](double a, double b) {
      return near(distance(a, early_s_), distance(b, late_s_));
    };
    for (const auto& [program, times] : job.classes) {
      const OpIndex a = job.part->step(program, early).begin;
      const OpIndex b = job.part->step(program, late).begin;
      for (OpIndex op = 0; op < job.part->step_operations[program]; ++op)
        if (!same(times->start_s[a + op], times->start_s[b + op]) ||
            !same(times->end_s[a + op], times->end_s[b + op]))
          return false;
    }
    return true;
  }

  const std::vector<JobTimes>& jobs_;
  double early_s_;
  double late_s_;
  double slack_s_;
  double window_s_ = 0.0;                                       // the age of the oldest step
  std::vector<std::pair<std::uint32_t, std::uint32_t>> alive_;  // by job: its steps at the dates
};

Repetition repetition_between(const std::vector<JobTimes>& jobs, double early_s, double late_s) {
  Repetition found{.begin_s = early_s, .period_s = late_s - early_s, .first = {}, .steps = {}};
  const double slack_s = kSameDate * found.period_s;
  for (const JobTimes& job : jobs) {
    found.first.push_back(job.ended_at(early_s + slack_s));
    found.steps.push_back(job.ended_at(late_s + slack_s) - found.first.back());
  }
  return found;
}

}  // namespace

std::vector<std::vector<double>> job_step_ends(std::span<const JobPart> jobs,
                                               const Partition& partition,
                                               const Timeline& timeline) {
  std::vector<std::vector<double>> ends;
  for (JobTimes& job : times_of(jobs, partition, timeline)) ends.push_back(std::move(job.ends_s));
  return ends;
}

// The dates are the ends of the steps of the job with the fewest steps, so that few are compared.
std::optional<Repetition> find_repetition(std::span<const JobPart> jobs, const Partition& partition,
                                          const Timeline& timeline) {
  const std::vector<JobTimes> times = times_of(jobs, partition, timeline);
  const std::vector<double>& dates = std::ranges::min_element(times, {}, [](const JobTimes& job) {
                                       return job.ends_s.size();
                                     })->ends_s;
  for (std::size_t late = 1; late < dates.size(); ++late)
    for (std::size_t early = late; early-- > 0;)
      if (StateComparison(times, dates[early], dates[late]).same())
        return repetition_between(times, dates[early], dates[late]);
  return std::nullopt;
}

}  // namespace trainyard
