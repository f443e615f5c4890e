#include "tools/cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace trainyard {

using namespace std::chrono_literals;

Progress::Progress(std::string what)
    : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_) (void)std::fputs(fmt::format("\r{:79}\r", "").c_str(), stderr);
}

void Progress::show(double fraction) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - start_ < 1s || now - last_ < 100ms) return;
  last_ = now;
  shown_ = true;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double left = fraction > 0.0 ? elapsed / fraction - elapsed : 0.0;
  (void)std::fputs(
      fmt::format("\r{}: {:3.0f} %, {:.0f} s left   ", what_, 100.0 * fraction, left).c_str(),
      stderr);
  std::fflush(stderr);
}

}  // namespace trainyard
