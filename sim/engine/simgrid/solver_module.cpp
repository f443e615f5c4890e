#include "sim/engine/simgrid/solver_module.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <system_error>

#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace fs = std::filesystem;

namespace {

using Make = FluidSolver* (*)(FluidSolver::Listener&);

constexpr const char* kHint = "build or install trainyard again, all of it";

Make load() {
  const fs::path file = fluid_solver_file();
  // The module is never unloaded: SimGrid's state belongs to the process. Functions are looked up
  // when they are first called: SimGrid and its libraries have thousands that no run calls, and
  // finding them all took 4 ms of every run.
  void* const module = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (module == nullptr) {
    const char* const reason = ::dlerror();
    throw InputError(Problem{file, "", fmt::format("SimGrid cannot be loaded: {}", reason), kHint});
  }
  void* const make = ::dlsym(module, TRAINYARD_SOLVER_ENTRY);
  if (make == nullptr)
    throw InputError(Problem{file, "", "belongs to another build of trainyard", kHint});
  return reinterpret_cast<Make>(make);
}

// The first caller loads the module; concurrent callers wait.
Make loaded() {
  static const Make make = load();
  return make;
}

}  // namespace

fs::path fluid_solver_file() {
  constexpr const char* kName = TRAINYARD_SOLVER_FILE;
  const fs::path first = code_file().parent_path();
  // From the folder of this code to the root: <prefix>/bin, or a folder in the folder of the build.
  for (fs::path folder = first; !folder.empty(); folder = folder.parent_path()) {
    for (const fs::path& place : {folder / kName, folder / TRAINYARD_SOLVER_FOLDER / kName}) {
      std::error_code error;
      if (fs::is_regular_file(place, error)) return place;
    }
    if (folder == folder.root_path()) break;
  }
  throw InputError(Problem{first.parent_path() / TRAINYARD_SOLVER_FOLDER / kName, "",
                           "the module that holds SimGrid is not there", kHint});
}

void load_fluid_solver() { static_cast<void>(loaded()); }

std::unique_lock<std::mutex> fluid_solver_turn() {
  static std::mutex turn;
  return std::unique_lock(turn);
}

std::unique_ptr<FluidSolver> make_fluid_solver(FluidSolver::Listener& listener) {
  return std::unique_ptr<FluidSolver>(loaded()(listener));
}

FluidSolverAhead::FluidSolverAhead(bool wanted) {
  if (!wanted) return;
  const auto load = [] {
    try {
      load_fluid_solver();
    } catch (const InputError&) {  // a later call that needs the module throws it
    }
  };
  try {
    loading_ = std::jthread(load);
  } catch (const std::system_error&) {  // no thread: loaded when needed
  }
}

}  // namespace trainyard
