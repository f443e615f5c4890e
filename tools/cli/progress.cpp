#include "tools/cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "tools/cli/print.hpp"

namespace trainyard {

using namespace std::chrono_literals;

Progress::Progress(std::string what)
    : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_) tell_over("");
}

void Progress::show(double fraction) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - start_ < 1s || now - last_ < 100ms) return;
  last_ = now;
  shown_ = true;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double left = fraction > 0.0 ? elapsed / fraction - elapsed : 0.0;
  tell_over(fmt::format("{}: {:3.0f} %, {:.0f} s left   {}", what_, 100.0 * fraction, left, note_));
}

void tell_redone(std::size_t rows, const std::string& journal) {
  tell(fmt::format(
      "trainyard: {}: {} {} done again: the scenario, a file it names, the data or the "
      "program is not what {} computed from\n",
      journal, rows, rows == 1 ? "row is" : "rows are", rows == 1 ? "it was" : "they were"));
}

}  // namespace trainyard
