#include "tools/python/call.hpp"

#include <utility>

namespace trainyard::python {

namespace py = pybind11;

std::shared_mutex& fork_lock() {
  static std::shared_mutex lock;
  return lock;
}

namespace {

constexpr std::chrono::milliseconds kBetween{50};  // calls of Python

}  // namespace

// An exception of Python must not pass through C++ code that runs without the GIL. It is kept, the
// work is asked to stop, and Call::run() raises it once the work has ended.
void Call::ask_python(double done, double all) {
  next_look_ = Clock::now() + kBetween;
  const py::gil_scoped_acquire gil;
  try {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (all > 0.0 && !progress_.is_none()) progress_(done, all);
  } catch (py::error_already_set& error) {
    raised_.emplace(std::move(error));
    stop_.request_stop();
  }
}

void Call::tell(double done, double all) {
  // The last piece of work is always reported.
  if (raised_ || (done < all && Clock::now() < next_tell_)) return;
  next_tell_ = Clock::now() + kBetween;
  ask_python(done, all);
}

// Studies poll this very often, so Python is asked twenty times a second at most.
bool Call::end() {
  if (!raised_ && Clock::now() >= next_look_) ask_python(0.0, 0.0);
  if (raised_) throw Cancelled("interrupted");
  return false;
}

SimulateOptions Call::options(SimulateOptions options) {
  options.stop = stop_.get_token();
  options.progress = [this](double fraction) { tell(fraction, 1.0); };
  return options;
}

}  // namespace trainyard::python
