// trainyard-profile: measures kernels on the GPU of this machine and writes them as a profile.
//
//    trainyard-profile -o h200.json                          the default grid, under eight minutes
//    trainyard-profile -o h200.json --only gemm,copy         part of it
//    trainyard-profile -o mine.json --shape "gemm m8192 n1280 k8192 bf16 wgrad accumulate_fp32"
//
// If it was interrupted or is started again with the same file, it continues where it stopped. Exit
// codes: 0 measured; 1 no GPU, or a result that differs from the reference; 2 usage; 130
// interrupted.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "kernels/bench/device.hpp"
#include "kernels/bench/front.hpp"
#include "kernels/bench/grid.hpp"
#include "kernels/bench/measure.hpp"
#include "kernels/bench/run_tasks.hpp"
#include "kernels/bench/shapes_file.hpp"
#include "kernels/bench/task.hpp"

namespace trainyard::bench {

namespace {

constexpr int exit_wrong = 1;
constexpr int exit_interrupted = 130;  // 128 + SIGINT, as in shells

// SIGINT and SIGTERM stay pending until the run checks for them: it finishes the current task,
// writes its row, and then stops.
sigset_t interruptions() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}
bool interrupted() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1;
}

std::vector<Task> wanted_tasks(const KernelOptions& options) {
  std::vector<Task> tasks;
  for (const std::string& line : options.shapes) tasks.push_back(read_shape_line(line));
  if (!options.shapes_file.empty())
    for (Task& task : read_shapes(options.shapes_file)) tasks.push_back(std::move(task));
  if (options.shapes.empty() && options.shapes_file.empty()) tasks = grid_tasks(options.grid);
  std::erase_if(tasks, [&options](const Task& task) {
    return !options.only.empty() &&
           std::ranges::find(options.only, task_category(task)) == options.only.end();
  });
  return tasks;
}

int list_tasks(const std::vector<Task>& tasks) {
  double seconds = 0.0;
  for (const Task& task : tasks) {
    fmt::print("{}\n", task_text(task));
    seconds += estimated_duration(task).value();
  }
  fmt::print(stderr, "{} tasks, about {:.0f} s on a slow GPU\n", tasks.size(), seconds);
  return 0;
}

void progress(const std::string& line) {
  if (isatty(STDERR_FILENO) == 1) fmt::print(stderr, "\r\033[K{}", line);
}
void say(const std::string& line) {
  progress("");
  fmt::print(stderr, "{}\n", line);
}

void note_load(const Bench& bench, MeasuredProfile& profile) {
  try {
    profile.provenance["under_load"] = readings_under_load(bench);
  } catch (const Unsupported& reason) {
    say(fmt::format("left out: clocks under load: {}", reason.what()));
  }
}

int measure_all(const std::string& out, MeasuredProfile profile, const std::vector<Task>& tasks) {
  const Bench bench;
  const std::size_t before = profile.rows.size();
  say(fmt::format("{} tasks, {} rows from before, about {:.0f} s", tasks.size(), before,
                  time_left(profile, tasks).value()));
  const Outcome outcome =
      run_tasks(profile, tasks, out,
                {.measure = [&bench](const Task& task) { return measure(bench, task); },
                 .interrupted = interrupted,
                 .say = say,
                 .progress = progress});
  if (!outcome.interrupted) note_load(bench, profile);
  finish_profile(profile, out);
  fmt::print("{}: {} rows, {} left out, {} wrong\n", out, profile.rows.size(), outcome.left_out,
             outcome.wrong);
  if (outcome.interrupted) {
    fmt::print(stderr, "interrupted: start the same command again to go on\n");
    return exit_interrupted;
  }
  return outcome.wrong > 0 ? exit_wrong : 0;
}

int profile(const KernelOptions& options, const std::vector<std::string>& command) {
  const std::vector<Task> tasks = wanted_tasks(options);
  if (options.list) return list_tasks(tasks);
  select_device();
  nlohmann::ordered_json origin = provenance(command);
  if (!cudnn_version().empty()) origin["cudnn"] = cudnn_version();
  return measure_all(options.out, resume_profile(options.out, origin), tasks);
}

}  // namespace

}  // namespace trainyard::bench

int main(int count, char** values) {
  namespace bench = trainyard::bench;
  const auto line = bench::read_kernel_options(count, values, bench::version_text());
  if (line.exit_code) return *line.exit_code;
  try {
    const sigset_t signals = bench::interruptions();
    // The mask is set before CUDA starts its threads, so that they inherit it.
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    return bench::profile(line.options, {values, values + count});
  } catch (const trainyard::InputError& error) {
    fmt::print(stderr, "trainyard-profile: {}\n", error.what());
    return 2;
  } catch (const trainyard::RunError& error) {
    fmt::print(stderr, "trainyard-profile: {}\n", error.what());
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "trainyard-profile: internal error: {}\n", error.what());
    return 70;
  }
}
