#include "scenarios/simulate/stopwatch.hpp"

#include <sys/resource.h>

#include <cstdint>

namespace trainyard {

void Stopwatch::record(RunFacts& facts) const {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  facts.wall_s = elapsed.count();
  facts.peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace trainyard
