#include "sim/engine/simgrid/solver_module.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
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
  // The module is never unloaded: SimGrid's state belongs to the process.
  void* const module = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
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
  const fs::path program = program_file().parent_path();
  const std::array<fs::path, 3> places = {
      program / kName, (program / TRAINYARD_SOLVER_FROM_PROGRAM / kName).lexically_normal(),
      fs::path(TRAINYARD_SOLVER_BUILT) / kName};
  for (const fs::path& place : places) {
    std::error_code error;
    if (fs::is_regular_file(place, error)) return place;
  }
  throw InputError(Problem{places[1], "", "the module that holds SimGrid is not there", kHint});
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
