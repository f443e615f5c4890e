// trainyard-profile: measures kernels on the GPU at hand and writes them as a profile.
//
//   trainyard-profile --out h200.json                        the default grid, under eight minutes
//   trainyard-profile --out h200.json --only gemm,copy       part of it
//   trainyard-profile --out mine.json --shape "gemm m8192 n1280 k8192 bf16 wgrad accumulate_fp32"
//
// Interrupted or started again with the same file, it goes on where it stopped. Exit codes: 0
// measured; 1 no GPU, or a result that the reference contradicts; 2 usage; 130 interrupted.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>

#include "kernels/bench/grid.hpp"
#include "kernels/bench/measure.hpp"
#include "kernels/bench/provenance.hpp"
#include "kernels/bench/shape_line.hpp"
#include "kernels/bench/shapes_file.hpp"

namespace trainyard::bench {

namespace {

struct Options {
  std::string out;
  std::vector<std::string> only;
  Grid grid = Grid::Default;
  std::vector<std::string> shapes;
  std::string shapes_file;
  bool list = false;
};

constexpr int exit_wrong = 1;
constexpr int exit_interrupted = 130;  // 128 + SIGINT, as shells say it

// SIGINT and SIGTERM wait until asked for: a task is finished, its row written, then the run stops.
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

std::vector<Task> wanted_tasks(const Options& options) {
  std::vector<Task> tasks;
  for (const std::string& line : options.shapes) tasks.push_back(read_shape_line(line));
  if (!options.shapes_file.empty())
    for (Task& task : read_shapes(options.shapes_file)) tasks.push_back(std::move(task));
  if (options.shapes.empty() && options.shapes_file.empty()) tasks = grid_tasks(options.grid);
  std::erase_if(tasks, [&options](const Task& task) {
    return !options.only.empty() &&
           std::ranges::find(options.only, task_group(task)) == options.only.end();
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

// One run: the tasks, what became of them.
class Run {
 public:
  explicit Run(const Options& options, MeasuredProfile profile)
      : out_(options.out), profile_(std::move(profile)) {}

  int measure_all(const std::vector<Task>& tasks) {
    const Bench bench;
    for (std::size_t i = 0; i < tasks.size() && !interrupted(); ++i) {
      progress(fmt::format("{}/{} {}", i + 1, tasks.size(), task_text(tasks[i])));
      if (!profile_.has(tasks[i])) measure_one(bench, tasks[i]);
    }
    progress("");
    if (!interrupted()) note_load(bench);
    finish_profile(profile_, out_);
    fmt::print("{}: {} rows, {} left out, {} wrong\n", out_, profile_.rows.size(), left_out_,
               wrong_);
    if (interrupted()) {
      fmt::print(stderr, "interrupted: start the same command again to go on\n");
      return exit_interrupted;
    }
    return wrong_ > 0 ? exit_wrong : 0;
  }

 private:
  void measure_one(const Bench& bench, const Task& task) {
    try {
      profile_.rows.push_back(measure(bench, task));
      write_partial(profile_, out_);
    } catch (const Unsupported& reason) {
      ++left_out_;
      say(fmt::format("left out: {}: {}", task_text(task), reason.what()));
    } catch (const WrongResult& reason) {
      ++wrong_;
      say(fmt::format("wrong result: {}: {}", task_text(task), reason.what()));
    }
  }

  void note_load(const Bench& bench) {
    try {
      profile_.provenance["under_load"] = readings_under_load(bench);
    } catch (const Unsupported& reason) {
      say(fmt::format("left out: clocks under load: {}", reason.what()));
    }
  }

  void say(const std::string& line) const {
    progress("");
    fmt::print(stderr, "{}\n", line);
  }
  void progress(const std::string& line) const {
    if (terminal_) fmt::print(stderr, "\r\033[K{}", line);
  }

  std::string out_;
  MeasuredProfile profile_;
  bool terminal_ = isatty(STDERR_FILENO) == 1;
  int left_out_ = 0;
  int wrong_ = 0;
};

int profile(const Options& options, const std::vector<std::string>& command) {
  const std::vector<Task> tasks = wanted_tasks(options);
  if (options.list) return list_tasks(tasks);
  select_device();
  Run run(options, resume_profile(options.out, provenance(command)));
  return run.measure_all(tasks);
}

// Throws CLI::ParseError.
Options read_options(CLI::App& app, int count, char** values) {
  Options options;
  const std::map<std::string, Grid> grids = {{"default", Grid::Default}, {"small", Grid::Small}};
  CLI::Option* list = app.add_flag("--list", options.list, "Print the tasks, measure nothing");
  app.add_option("--out", options.out, "The profile to write or to go on with (JSON)");
  app.add_option("--only", options.only, "Measure only these")
      ->delimiter(',')
      ->check(CLI::IsMember({"gemm", "experts", "memory", "copy", "launch", "interference"}));
  CLI::Option* grid = app.add_option("--grid", options.grid, "default: under eight minutes; small")
                          ->transform(CLI::CheckedTransformer(grids));
  app.add_option("--shape", options.shapes, "Measure this instead of a grid; may be repeated")
      ->excludes(grid);
  app.add_option("--shapes", options.shapes_file,
                 "Measure the shapes of this file (trainyard run --missing) instead of a grid")
      ->excludes(grid);
  app.set_version_flag("--version", version_text());
  app.parse(count, values);
  if (options.out.empty() && list->count() == 0) throw CLI::RequiredError("--out");
  return options;
}

}  // namespace

}  // namespace trainyard::bench

int main(int count, char** values) {
  namespace bench = trainyard::bench;
  CLI::App app("Measures kernels on the GPU at hand and writes them as a profile.");
  try {
    const bench::Options options = bench::read_options(app, count, values);
    const sigset_t signals = bench::interruptions();
    // Before CUDA starts its threads, so that they inherit the mask.
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    return bench::profile(options, {values, values + count});
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
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
