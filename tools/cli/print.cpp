#include "tools/cli/print.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/settings.hpp"
#include "sim/base/utf8.hpp"
#include "sim/render/colour.hpp"

namespace trainyard {

namespace {

// The state of the streams, which belongs to the process like the streams themselves.
struct Report {
  bool silent = false;
  bool coloured = false;
  bool detailed = false;
};
Report& report() {
  static Report state;
  return state;
}

// Threads that run at the same time may read the same file.
void tell_read(const std::string& file) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::scoped_lock lock(mutex);
  if (told.insert(file).second) tell(fmt::format("trainyard: reads {}\n", file));
}

}  // namespace

void silence_report() { report().silent = true; }

void choose_colour(Colour colour) {
  const char* refused = std::getenv("NO_COLOR");
  const bool wanted = isatty(STDOUT_FILENO) == 1 && (refused == nullptr || *refused == '\0');
  report().coloured = colour == Colour::Always || (colour == Colour::Auto && wanted);
}

void print_text(std::string_view text) {
  if (report().silent) return;
  const std::string plain = printable(text);
  const std::string shown = report().coloured ? coloured(plain) : plain;
  if (std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size()) return;
  throw InputError(
      Problem{.file = {},
              .pointer = {},
              .problem = fmt::format("standard output cannot be written: {}", std::strerror(errno)),
              .hint = {}});
}

void tell_details() {
  if (std::exchange(report().detailed, true)) return;
  if (!settings().file.empty()) tell_read(settings().file);  // read before the command line
  watch_reads(tell_read);
}

bool tells_details() { return report().detailed; }

void tell(std::string_view text) { (void)std::fputs(printable(text).c_str(), stderr); }

namespace {

// Writes printable(text) over the progress line on the terminal, cut to the length of that line. An
// empty text clears the line.
void tell_over(std::string_view text) {
  constexpr std::size_t kColumns = 79;
  const std::string line = printable(text).substr(0, kColumns);
  const char* const end = text.empty() ? "\r" : "";
  (void)std::fputs(fmt::format("\r{:<{}}{}", line, kColumns, end).c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

void keep_standard_streams_apart() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() returns the lowest free number. That is this stream, because all lower ones are open.
    (void)::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

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

void report_redone(std::size_t rows, const std::string& journal) {
  tell(fmt::format(
      "trainyard: {}: {} {} done again: the scenario, a file it names, the data or the "
      "program is not what {} computed from\n",
      journal, rows, rows == 1 ? "row is" : "rows are", rows == 1 ? "it was" : "they were"));
}

}  // namespace trainyard
