// Wall time since its making and peak memory of the process, into the facts.
#pragma once

#include <chrono>

#include "sim/report/run_view.hpp"

namespace trainyard {

class Stopwatch {
 public:
  void record(RunFacts& facts) const;

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace trainyard
