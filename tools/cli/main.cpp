// The main program of `trainyard`: reads the arguments, runs the chosen subcommand, and turns
// errors into exit codes.
#include <fmt/format.h>
#ifdef __GLIBC__
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <span>

#include "sim/base/error.hpp"
#include "sim/base/settings.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/print.hpp"
#include "tools/cli/version.hpp"

namespace {

using trainyard::Exit;
using trainyard::tell;

// The commands, in the order of `trainyard --help`.
constexpr std::array kCommands{
    trainyard::add_run,      trainyard::add_init,       trainyard::add_memory,
    trainyard::add_compare,  trainyard::add_explain,    trainyard::add_search,
    trainyard::add_sweep,    trainyard::add_goodput,    trainyard::add_jobs,
    trainyard::add_schedule, trainyard::add_collective, trainyard::add_serve,
    trainyard::add_import,   trainyard::add_show,       trainyard::add_list,
    trainyard::add_schema,   trainyard::add_validate,   trainyard::add_calibrate,
    trainyard::add_profile,  trainyard::add_pages,      trainyard::add_doctor,
    trainyard::add_help};

// Printed by the command without arguments. tests/tools/options_test.cpp runs the three commands.
constexpr const char* kFirstCommands =
    "Trainyard predicts how long a training step of a large model takes on a GPU cluster.\n\n"
    "How long does a step take, does it fit, and what limits it?\n"
    "  trainyard run --model llama3-70b --gpus 64 --gpu h100\n"
    "Which algorithm of a collective is the quickest here?\n"
    "  trainyard collective all_reduce --node dgx_h100 --nodes 4\n"
    "How do I describe my own model and cluster?\n"
    "  trainyard init --yes --model llama3-8b --node dgx_h100 --nodes 2 --output mine.json\n\n"
    "`trainyard --help` lists all commands, `trainyard doctor` says what is installed.\n";

int code(Exit exit) { return static_cast<int>(exit); }

int parse_failed(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
  tell(fmt::format("trainyard: {}\n", trainyard::usage_problem(app, error)));
  return code(Exit::BadInput);
}

// Flushes standard output and returns `exit`, or the code of an error: the C library buffers
// printed text, so a full disk may show only now.
int printed(int exit) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit;
  // errno is 0 if an earlier write failed; the reason is then lost.
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
    // for example a name that is too long, a loop of symbolic links, or a folder without access
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

// Asks the kernel for large pages. A step of 1 024 GPUs writes about 60 MiB once. With small pages
// the kernel takes as long to hand them out as the engine takes to replay the step: 15 000 page
// faults, 20 to 30 ms. Therefore the heap grows in one piece, and madvise() requests pages of 2 MiB
// for it, which the kernel may refuse. Memory that the program does not touch is not allocated. The
// function does nothing if the C library or the kernel has no large pages. REQUIRES: called at the
// start of the program.
void prefer_large_pages() {
#if defined(__GLIBC__) && defined(MADV_HUGEPAGE)
  constexpr std::size_t kMebibyte = std::size_t{1} << 20U;
  constexpr std::size_t kLargePage = 2 * kMebibyte;
  constexpr std::size_t kHeap = 128 * kMebibyte;
  // All blocks come from the heap, and freed memory stays there: a worker that answers one request
  // after the other clears a page once.
  mallopt(M_ARENA_MAX, 1);  // for all threads: separate arenas would have small pages
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, 1024 * kMebibyte);
  mallopt(M_TOP_PAD, kHeap);
  const auto first = reinterpret_cast<std::uintptr_t>(sbrk(0));
  // This allocation is larger than the rest of the initial heap, so the heap grows. The pointer is
  // volatile, because the compiler would remove an allocation that nobody reads.
  void* volatile grown = std::malloc(kMebibyte);
  const auto last = reinterpret_cast<std::uintptr_t>(sbrk(0));
  std::free(grown);
  const std::uintptr_t begin = (first + kLargePage - 1) / kLargePage * kLargePage;
  if (last >= begin + kLargePage)
    madvise(reinterpret_cast<void*>(begin), last - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  // The first file that the program opens could take the number of a closed standard stream, so
  // this comes first.
  trainyard::keep_standard_streams_apart();
  prefer_large_pages();
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  // A worker of `trainyard serve` takes numbers in fixed places, so it needs no parser.
  if (trainyard::is_serve_worker(arguments))
    return run([&] { return trainyard::serve_worker(arguments); });
  CLI::App app{
      "Trainyard predicts how long a training step of a large model takes on a GPU cluster."};
  app.name("trainyard");
  app.require_subcommand(1);
  app.set_version_flag("--version", trainyard::version_text());
  app.footer(
      "Example:\n  trainyard run scenarios/megatron/gpt3_175b_64xa100_selective.json\n"
      "`trainyard COMMAND --help` shows each command with an example.");
  trainyard::Action action;
  if (argc == 1)
    return run([] {
      trainyard::say("{}", kFirstCommands);
      return Exit::Fine;
    });
  for (const auto add : kCommands) add(app, action);
  trainyard::add_report_options(app);
  trainyard::name_what_options_take(app);
  try {
    trainyard::take_defaults(app, trainyard::settings());
  } catch (const trainyard::InputError& error) {
    tell(fmt::format("trainyard: {}\n", error.what()));
    return code(Exit::BadInput);
  }
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
