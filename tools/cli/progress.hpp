// One line on the terminal that says how far a long run is. Nothing when standard error is not a
// terminal or the run takes under a second.
#pragma once

#include <chrono>
#include <string>

namespace trainyard {

class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();  // erases the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `fraction` in 0..1.
  void show(double fraction);

 private:
  std::string what_;
  bool terminal_ = false;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_ = start_;
};

}  // namespace trainyard
