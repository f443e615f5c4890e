// A long call from Python: the GIL is released while it works, Ctrl-C ends it, and a function of
// Python receives its progress.
//
//    Call call(progress);
//    return call.run([&] { return simulate(scenario, call.options({}), memo); });
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <optional>
#include <shared_mutex>
#include <stop_token>

#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"

namespace trainyard::python {

// A study forks worker processes, and a fork copies locks as they are: one that another thread
// holds would stay locked in the worker. Simulations of this process therefore hold this lock
// shared, and studies hold it alone.
[[nodiscard]] std::shared_mutex& fork_lock();

class Call {
 public:
  // `progress` is None, or is called with the numbers of done and of all pieces of work.
  // REQUIRES: the GIL is held here and in the destructor.
  explicit Call(pybind11::object progress) : progress_(std::move(progress)) {}

  // Runs `work`, which returns a value, without the GIL. What Python raised meanwhile, such as
  // KeyboardInterrupt, takes the place of Cancelled.
  template <class Work>
  auto run(const Work& work) {
    try {
      auto answer = released(work);
      // A function of progress may raise at the last piece of work, which nothing can cancel.
      if (raised_) throw Cancelled("interrupted");
      return answer;
    } catch (const Cancelled&) {
      if (!raised_) throw;
      throw pybind11::error_already_set(std::move(*raised_));
    }
  }
  // Runs `work` in this process, next to the work of other threads.
  template <class Work>
  auto simulate(const Work& work) {
    return run([&] {
      const std::shared_lock lock(fork_lock());
      return work();
    });
  }
  // Runs `work`, which forks worker processes.
  template <class Work>
  auto study(const Work& work) {
    return run([&] {
      const std::unique_lock lock(fork_lock());
      return work();
    });
  }

  // Reports progress. Called without the GIL, as are the functions below.
  void tell(double done, double all);
  // Throws Cancelled after Ctrl-C, or after an exception of `progress`. For `end` of studies.
  [[nodiscard]] bool end();
  // The options of a simulation that Ctrl-C ends.
  [[nodiscard]] SimulateOptions options(SimulateOptions options);

 private:
  using Clock = std::chrono::steady_clock;

  template <class Work>
  static auto released(const Work& work) {
    const pybind11::gil_scoped_release without_gil;
    return work();
  }
  void ask_python(double done, double all);

  pybind11::object progress_;
  std::optional<pybind11::error_already_set> raised_;
  std::stop_source stop_;
  Clock::time_point next_look_ = Clock::now();  // for signals
  Clock::time_point next_tell_ = Clock::now();
};

}  // namespace trainyard::python
