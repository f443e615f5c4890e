// Loads SimGrid on demand: finds and loads, once, the shared object that holds our FluidSolver
// implementation on top of SimGrid.
//
//    const FluidSolverAhead ahead(true);      // loads it on another thread
//    // Other work comes here: read, lower, fold.
//    const auto turn = fluid_solver_turn();   // only one solver at a time
//    make_fluid_solver(listener);             // waits for the rest of the loading, if any
//
// A process that is going to fork workers loads the module before that, once for all of them.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "sim/engine/simgrid/fluid_solver.hpp"

namespace trainyard {

// Path of the module (sim/base/module.hpp). Throws InputError when there is none.
[[nodiscard]] std::filesystem::path fluid_solver_file();

// Throws InputError when there is no module or it does not fit this program.
void load_fluid_solver();

// A process has one SimGrid. Only the holder of the turn may have a solver; others wait for it.
[[nodiscard]] std::unique_lock<std::mutex> fluid_solver_turn();

// Loads the module as load_fluid_solver() does. REQUIRES: the caller holds the turn for as long as
// the solver lives; `listener` outlives it.
[[nodiscard]] std::unique_ptr<FluidSolver> make_fluid_solver(FluidSolver::Listener& listener);

// Loads the module on another thread while it lives. Its destructor waits for the loading.
// REQUIRES: no worker is forked before that.
class FluidSolverAhead {
 public:
  // `wanted` false: does nothing.
  explicit FluidSolverAhead(bool wanted);

 private:
  std::jthread loading_;
};

}  // namespace trainyard
