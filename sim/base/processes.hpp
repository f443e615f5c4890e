// Independent work in forked child processes, by default as many at a time as there are cores.
//
// The engine exists once per process, so scenarios of a sweep or rows of a table run in forked
// children. Each child starts as a copy of the parent, works, and sends its answer back. A failure
// of a child, even a crash, ends only its own piece of work.
//
//    run_in_processes(rows.size(), {.work = [&](std::size_t i) { return work_on(rows[i]); },
//                                   .done = [&](std::size_t i, const Answer& a) { keep(i, a); }});
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace trainyard {

struct Answer {
  enum class Kind : std::uint8_t {
    Fine,        // `text` is the result of the work
    InputError,  // `text` is the error's message
    RunError,
    Crash,  // any other exception, a signal, or an end without a complete answer
  } kind = Kind::Fine;
  std::string text = {};
};

struct ProcessWork {
  std::function<std::string(std::size_t)> work;          // runs in the child, by index
  std::function<void(std::size_t, const Answer&)> done;  // runs in the parent when a child ends
  std::size_t processes = 0;                             // at a time; 0: one per core
  std::function<bool()> stop = {};  // called before each start; true: start no more
  // Called ten times a second; true: kill the running children at once, without an answer.
  std::function<bool()> end = {};
};

// Starts the pieces in the order of their indices, and returns when all started ones have ended.
// Children also end if this process ends for any reason. Throws RunError if the system cannot start
// another process.
void run_in_processes(std::size_t count, const ProcessWork& work);

}  // namespace trainyard
