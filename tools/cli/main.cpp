// The command: reads the arguments, runs the chosen subcommand, turns errors into exit codes.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "tools/cli/answers.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/large_pages.hpp"
#include "tools/cli/usage_error.hpp"
#include "tools/cli/version.hpp"

namespace {

using trainyard::Exit;

int code(Exit exit) { return static_cast<int>(exit); }

int parse_failed(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
  fmt::print(stderr, "trainyard: {}\n", trainyard::usage_problem(app, error));
  return code(Exit::BadInput);
}

// What was printed may still be on its way; a full disk shows only now.
int printed(int exit) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit;
  fmt::print(stderr, "trainyard: standard output cannot be written: {}\n", std::strerror(errno));
  return code(Exit::BadInput);
}

int run(const trainyard::Action& action) {
  try {
    return printed(code(action()));
  } catch (const trainyard::InputError& error) {
    fmt::print(stderr, "trainyard: {}\n", error.what());
    return code(Exit::BadInput);
  } catch (const trainyard::RunError& error) {
    fmt::print(stderr, "trainyard: {}\n", error.what());
    return code(Exit::RunSaysNo);
  } catch (const std::bad_alloc&) {
    fmt::print(
        stderr,
        "trainyard: this takes more memory than the process may have (raise `ulimit -v`, use "
        "a machine with more, or take a smaller batch: --set training.global_batch_size=N)\n");
    return code(Exit::RunSaysNo);
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return printed(code(Exit::BadInput));
    fmt::print(
        stderr,
        "trainyard: {}\nThis is a fault of trainyard itself; please report it with the scenario.\n",
        error.what());
    return code(Exit::Internal);
  }
}

}  // namespace

int main(int argc, char** argv) {
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
    fmt::print(stderr, "trainyard: {}\n", problem);
    return code(Exit::BadInput);
  }
  return run(action);
}
