// Names that several tests of goodput share.
#pragma once

#include <filesystem>
#include <limits>
#include <numeric>

#include "tools/studies/goodput/run/sampled_run.hpp"

namespace trainyard {

inline const std::filesystem::path kTree = TRAINYARD_SOURCE_DIRECTORY;

inline constexpr double kForEver = std::numeric_limits<double>::infinity();

// The wall time of a run, phase by phase.
inline double sum_of(const SampledRun& run) {
  return std::accumulate(run.phases_s.begin(), run.phases_s.end(), 0.0);
}

}  // namespace trainyard
