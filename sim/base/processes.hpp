// Independent pieces of work in processes of their own, as many at a time as there are cores.
//
// The engine is one per process (design decision D4), so scenarios of a sweep or rows of a table
// run in forked children: each starts as a copy of the parent, works, and sends its answer back.
// A failure of a child, even a crash, ends that piece of work and no other.
//
//   run_in_processes(rows.size(), {.work = [&](std::size_t i) { return simulate(rows[i]); },
//                                  .done = [&](std::size_t i, const Answer& a) { keep(i, a); }});
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace trainyard {

struct Answer {
  enum class Kind : std::uint8_t {
    Fine,        // `text` is what the work returned
    InputError,  // `text` is the error's message
    RunError,
    Crash,  // any other exception, a signal, or a process that ended without a whole answer
  } kind = Kind::Fine;
  std::string text = {};
};

struct ProcessWork {
  std::function<std::string(std::size_t)> work;          // in the child, by number
  std::function<void(std::size_t, const Answer&)> done;  // in the parent, as they end
  std::size_t processes = 0;                             // at a time; 0: one per core
  std::function<bool()> stop = {};  // asked before each start; true: no more are started
  // Asked ten times a second; true: what is under way is ended at once, without an answer.
  std::function<bool()> end = {};
};

// Starts the pieces in the order of their numbers and returns when all that were started have
// ended. A child ends with this process, however that ends. Throws RunError where the system gives
// no more processes.
void run_in_processes(std::size_t count, const ProcessWork& work);

}  // namespace trainyard
