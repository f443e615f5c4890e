// The output of the command: its answer on standard output, errors and the progress of a long run
// on standard error. Names in scenarios and files may hold characters that steer a terminal, so
// everything that is printed goes through here.
//
//   say("{} rows  {}\n", rows.size(), file);
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace trainyard {

// Prints printable(text). Throws InputError where standard output takes no more.
void print_text(std::string_view text);

template <class... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  print_text(fmt::format(format, std::forward<Values>(values)...));
}

// Prints printable(text) to standard error. It may be closed or full: then nobody can be told, and
// the exit code says enough.
void tell(std::string_view text);

// A stream that was closed (`trainyard ... >&-`) is opened so that using it fails as before: the
// first file that the command opens must not become its standard output.
void keep_standard_streams_apart();

// One line on the terminal that says how far a long run is. Nothing is shown when standard error is
// not a terminal or the run takes under a second.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();  // erases the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `fraction` in 0..1.
  void show(double fraction);
  // A few words to stand behind it from now on.
  void note(std::string text) { note_ = std::move(text); }

 private:
  std::string what_;
  std::string note_;
  bool terminal_ = false;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_ = start_;
};

// One line on standard error: so many rows of a journal do not hold any more.
void tell_redone(std::size_t rows, const std::string& journal);

}  // namespace trainyard
