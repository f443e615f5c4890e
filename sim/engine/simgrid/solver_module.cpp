#include "sim/engine/simgrid/solver_module.hpp"

#include <system_error>

#include "sim/base/error.hpp"
#include "sim/base/module.hpp"

namespace trainyard {

namespace {

using Make = FluidSolver* (*)(FluidSolver::Listener&);

constexpr Module kModule{.file = TRAINYARD_MODULE_FILE,
                         .folder = TRAINYARD_MODULE_FOLDER,
                         .entry = TRAINYARD_MODULE_ENTRY,
                         .holds = "SimGrid"};

// The first caller loads the module; concurrent callers wait.
Make loaded() {
  static const Make make = reinterpret_cast<Make>(load_module(kModule));
  return make;
}

}  // namespace

std::filesystem::path fluid_solver_file() { return module_file(kModule); }

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
