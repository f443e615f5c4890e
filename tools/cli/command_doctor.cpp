// `trainyard doctor`: shows what is installed, what is missing, and what does not work without it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "kernels/gpu.hpp"
#include "models/architecture/architecture.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/settings.hpp"
#include "sim/chakra/export.hpp"
#include "sim/engine/simgrid/solver_module.hpp"
#include "sim/render/text_table.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/print.hpp"
#include "tools/cli/version.hpp"
#include "tools/serve/http/http_server.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

struct Finding {
  std::string what;
  bool works = true;
  bool needed = false;  // nothing works without it
  std::string text;
};

// The message of the first problem, or nothing if `look` succeeds.
std::string problem_of(const std::function<void()>& look) {
  try {
    look();
    return "";
  } catch (const InputError& error) {
    return error.problems().front().problem;
  } catch (const RunError& error) {
    return error.what();
  }
}

Finding data_finding() {
  std::string text;
  const std::string problem = problem_of([&] {
    text = fmt::format("{}: {} models, {} node types, {} GPUs", data_directory().string(),
                       architecture_names().size(), node_names().size(), gpu_names().size());
    for (const fs::path& root : data_roots())
      if (root != data_directory()) text += fmt::format("; own data in {}", root.string());
  });
  if (problem.empty()) return {.what = "data", .text = text};
  return {.what = "data", .works = false, .needed = true, .text = problem};
}

Finding simgrid_finding() {
  const std::string problem = problem_of([] { load_fluid_solver(); });
  if (problem.empty())
    return {.what = "SimGrid", .text = "transfers that share links are simulated"};
  return {.what = "SimGrid",
          .works = false,
          .text = problem + "; only --engine ideal works, without contention"};
}

Finding page_finding() {
  const std::string problem = problem_of([] { (void)serve::make_http_server({}); });
  if (problem.empty()) return {.what = "live page", .text = "`trainyard serve` works"};
  return {
      .what = "live page", .works = false, .text = problem + "; `trainyard serve` does not work"};
}

Finding chakra_finding() {
  if (problem_of([] { chakra::refuse_unless_built_in("a trace"); }).empty())
    return {.what = "Chakra", .text = "execution traces are read and written"};
  return {.what = "Chakra",
          .works = false,
          .text = "built without protobuf: `run --chakra` and `import chakra` do not work"};
}

Finding profiler_finding(const char* program, const char* command) {
  if (profiler_program(program))
    return {.what = program, .text = fmt::format("`{}` works on a GPU", command)};
  return {.what = program,
          .works = false,
          .text = fmt::format("built where nvcc and its libraries are found: `{}` does not work",
                              command)};
}

Finding gpu_finding() {
  std::error_code error;
  std::size_t gpus = 0;
  for (; fs::exists(fmt::format("/dev/nvidia{}", gpus), error);) ++gpus;
  if (gpus > 0) return {.what = "GPU", .text = fmt::format("{} of NVIDIA", gpus)};
  return {.what = "GPU",
          .works = false,
          .text = "none of NVIDIA; only measuring kernels and collectives needs one"};
}

Finding settings_finding() {
  const std::string problem = problem_of([] { (void)settings(); });
  std::error_code error;
  if (!problem.empty()) return {.what = "settings", .works = false, .text = problem};
  const fs::path file = settings_file();
  return {.what = "settings",
          .text = !file.empty() && fs::exists(file, error)
                      ? file.string()
                      : fmt::format("none ({} would hold them)", file.string())};
}

Finding machine_finding() {
  constexpr double kGibibyte = 0x1p30;
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                        static_cast<double>(sysconf(_SC_PAGE_SIZE)) / kGibibyte;
  return {.what = "machine",
          .text = fmt::format("{} cores for sweeps and searches, {:.0f} GiB of memory",
                              std::max(1U, std::thread::hardware_concurrency()), memory)};
}

// Exit::RunSaysNo where no run is possible.
Exit doctor() {
  const Finding findings[] = {data_finding(),
                              settings_finding(),
                              simgrid_finding(),
                              page_finding(),
                              chakra_finding(),
                              profiler_finding("trainyard-profile", "trainyard profile measure"),
                              profiler_finding("trainyard-profile-nccl", "trainyard profile nccl"),
                              gpu_finding(),
                              machine_finding()};
  say("{}\n", version_text());
  Exit exit = Exit::Fine;
  for (const Finding& found : findings) {
    say("{}", wrapped(fmt::format("  {:<8} {:<22}  {}", found.works ? "ok" : "missing", found.what,
                                  found.text),
                      35));
    if (found.needed && !found.works) exit = Exit::RunSaysNo;
  }
  return exit;
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("doctor", "Show what is installed, what is missing, and what that costs");
  command->footer("Example:\n  trainyard doctor\nExit code 1 says that no run is possible.");
  command->callback([&action] { action = [] { return doctor(); }; });
}

}  // namespace trainyard
