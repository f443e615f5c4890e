// One line on the terminal that says how far a long run is. Nothing when standard error is not a
// terminal or the run takes under a second.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

namespace trainyard {

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
