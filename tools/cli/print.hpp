// The output of the command: the answer on standard output, errors and the progress of a long run
// on standard error. Names in scenarios and files may contain terminal control characters, so all
// text is printed through these functions, which escape them.
//
//    say("{} rows  {}\n", rows.size(), file);
//
// The report can be silenced: by -q, and where standard output receives a file (`--json -`).
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace trainyard {

// Prints printable(text), coloured where that was chosen, unless the report is silenced. Throws
// InputError if standard output cannot be written.
void print_text(std::string_view text);

// From now on print_text() prints nothing.
void silence_report();

// Whether the report is coloured: always, never, or (auto) where standard output is a terminal and
// the variable NO_COLOR is not set (no-color.org).
enum class Colour { Auto, Always, Never };
void choose_colour(Colour colour);

template <class... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  print_text(fmt::format(format, std::forward<Values>(values)...));
}

// Prints printable(text) to standard error. If standard error is closed or full, the text is lost;
// the exit code still reports the error.
void tell(std::string_view text);

// From now on the command says on standard error, one line each, which files it reads, each once;
// and tells_details() is true. A child process says it, too. REQUIRES: no other thread runs yet.
void tell_details();
// Whether the command also says what is not asked for: `run` says how long its stages take.
[[nodiscard]] bool tells_details();

// Opens /dev/null in place of each standard stream that is closed (`trainyard ... >&-`), with the
// access mode that makes its use fail as before. Otherwise the first file that the command opens
// would take the number of the closed stream and would receive what the command prints.
void keep_standard_streams_apart();

// A progress line of a long run on the terminal. Nothing is shown if standard error is not a
// terminal or if the run takes less than a second.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();  // erases the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Updates the line. `fraction` is the part of the run that is done, in 0..1.
  void show(double fraction);
  // Sets a short text that is shown behind the progress from now on.
  void note(std::string text) { note_ = std::move(text); }

 private:
  std::string what_;
  std::string note_;
  bool terminal_ = false;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_ = start_;
};

// Prints one line on standard error: `rows` rows of the journal are no longer valid and are
// simulated once more.
void report_redone(std::size_t rows, const std::string& journal);

}  // namespace trainyard
