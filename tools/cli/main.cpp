// The command: reads the arguments, runs the chosen subcommand, turns errors into exit codes.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "tools/cli/answers.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/large_pages.hpp"
#include "tools/cli/print.hpp"
#include "tools/cli/usage_error.hpp"
#include "tools/cli/version.hpp"

namespace {

using trainyard::Exit;
using trainyard::tell;

int code(Exit exit) { return static_cast<int>(exit); }

int parse_failed(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
  tell(fmt::format("trainyard: {}\n", trainyard::usage_problem(app, error)));
  return code(Exit::BadInput);
}

// What was printed may still be on its way; a full disk shows only now.
int printed(int exit) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit;
  // Where it failed before, nobody was told the reason.
  tell(fmt::format("trainyard: standard output cannot be written: {}\n",
                   std::strerror(errno != 0 ? errno : EIO)));
  return code(Exit::BadInput);
}

int run(const trainyard::Action& action) {
  try {
    return printed(code(action()));
  } catch (const trainyard::InputError& error) {
    tell(fmt::format("trainyard: {}\n", error.what()));
    return code(Exit::BadInput);
  } catch (const trainyard::RunError& error) {
    tell(fmt::format("trainyard: {}\n", error.what()));
    return code(Exit::RunSaysNo);
  } catch (const std::bad_alloc&) {
    tell(
        "trainyard: this takes more memory than the process may have (raise `ulimit -v`, use "
        "a machine with more, or take a smaller batch: --set training.global_batch_size=N)\n");
    return code(Exit::RunSaysNo);
  } catch (const std::filesystem::filesystem_error& error) {
    // A name that is too long, a loop of links, a folder that may not be entered.
    tell(fmt::format("trainyard: {}: {}\n", error.path1().string(), error.code().message()));
    return code(Exit::BadInput);
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return printed(code(Exit::BadInput));
    tell(fmt::format(
        "trainyard: {}\nThis is a fault of trainyard itself; please report it with the scenario.\n",
        error.what()));
    return code(Exit::Internal);
  }
}

}  // namespace

int main(int argc, char** argv) {
  trainyard::keep_standard_streams_apart();
  trainyard::prefer_large_pages();
  CLI::App app{
      "Trainyard predicts how long a training step of a large model takes on a GPU cluster."};
  app.name("trainyard");
  app.require_subcommand(1);
  app.set_version_flag("--version", trainyard::version_text());
  app.footer(
      "Example:\n  trainyard run scenarios/megatron/gpt3_175b_64xa100_selective.json\n"
      "`trainyard COMMAND --help` shows each command with an example.");
  trainyard::Action action;
  trainyard::add_run(app, action);
  trainyard::add_init(app, action);
  trainyard::add_memory(app, action);
  trainyard::add_compare(app, action);
  trainyard::add_explain(app, action);
  trainyard::add_search(app, action);
  trainyard::add_sweep(app, action);
  trainyard::add_schedule(app, action);
  trainyard::add_collective(app, action);
  trainyard::add_import(app, action);
  trainyard::add_show(app, action);
  trainyard::add_list(app, action);
  trainyard::add_schema(app, action);
  trainyard::add_validate(app, action);
  trainyard::add_calibrate(app, action);
  trainyard::add_profile(app, action);
  trainyard::add_pages(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return parse_failed(app, error);
  }
  if (const std::string problem = trainyard::argument_problem(app); !problem.empty()) {
    tell(fmt::format("trainyard: {}\n", problem));
    return code(Exit::BadInput);
  }
  return run(action);
}
