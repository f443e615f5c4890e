#include "kernels/bench/run_tasks.hpp"

#include <fmt/format.h>

#include "kernels/bench/grid.hpp"

namespace trainyard::bench {

Seconds time_left(const MeasuredProfile& profile, const std::vector<Task>& tasks) {
  Seconds left{0};
  for (const Task& task : tasks)
    if (!profile.has(task)) left = left + estimated_duration(task);
  return left;
}

Outcome run_tasks(MeasuredProfile& profile, const std::vector<Task>& tasks,
                  const std::filesystem::path& out, const Measuring& measuring) {
  Outcome outcome;
  Seconds left = time_left(profile, tasks);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Task& task = tasks[i];
    if (profile.has(task)) {
      ++outcome.kept;
      continue;
    }
    if (measuring.interrupted()) {
      outcome.interrupted = true;
      break;
    }
    measuring.progress(fmt::format("{}/{} {}, about {:.0f} s left", i + 1, tasks.size(),
                                   task_text(task), left.value()));
    left = left - estimated_duration(task);
    try {
      profile.rows.push_back(measuring.measure(task));
      write_partial(profile, out);
      ++outcome.measured;
    } catch (const Unsupported& reason) {
      ++outcome.left_out;
      measuring.say(fmt::format("left out: {}: {}", task_text(task), reason.what()));
    } catch (const WrongResult& reason) {
      ++outcome.wrong;
      measuring.say(fmt::format("wrong result: {}: {}", task_text(task), reason.what()));
    }
  }
  measuring.progress("");
  return outcome;
}

}  // namespace trainyard::bench
