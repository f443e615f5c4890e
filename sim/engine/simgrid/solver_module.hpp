// SimGrid on demand: the shared object that holds our FluidSolver over it, found and loaded once.
//
//   const FluidSolverAhead ahead(true);   // loads it on a thread of its own meanwhile
//   ...                                   // read, lower, fold
//   make_fluid_solver(listener);          // waits for the rest of the loading, if any
//
// A process that is going to fork workers loads it before, once for all of them.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "sim/engine/simgrid/fluid_solver.hpp"

namespace trainyard {

// Beside the program, in the library folder it is installed with, or where it was built. Throws
// InputError when it is at none of these places.
[[nodiscard]] std::filesystem::path fluid_solver_file();

// Throws InputError when there is no module or it does not fit this program.
void load_fluid_solver();

// A process has one SimGrid: whoever holds the turn may have a solver, others wait for it.
[[nodiscard]] std::unique_lock<std::mutex> fluid_solver_turn();

// Loads it as load_fluid_solver() does. REQUIRES: the caller has the turn for as long as the solver
// lives; `listener` outlives it.
[[nodiscard]] std::unique_ptr<FluidSolver> make_fluid_solver(FluidSolver::Listener& listener);

// While it lives, loading goes on beside whatever else is done. It ends no sooner than the loading:
// no worker may be forked before.
class FluidSolverAhead {
 public:
  // False: does nothing.
  explicit FluidSolverAhead(bool wanted);

 private:
  std::jthread loading_;
};

}  // namespace trainyard
