// How well the durations are known: the share of busy time whose kernels were measured,
// interpolated, extrapolated or the roofline, and which shapes would be most worth measuring
// (design D5).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/report/run_view.hpp"

namespace trainyard {

struct KernelUse {
  std::uint32_t kernel = 0;  // index into Workload::kernels
  Provenance provenance = Provenance::Extrapolated;
  double time_s = 0.0;  // of all ranks
  double share = 0.0;   // of the busy time of all ranks
};

struct CostSummary {
  double busy_s = 0.0;                      // kernel time of all ranks together
  std::array<double, provenances> share{};  // by Provenance; sums to 1 unless nothing ran
  std::vector<KernelUse> worth_measuring;   // not measured, largest share first
  [[nodiscard]] double of(Provenance provenance) const {
    return share[static_cast<std::size_t>(provenance)];
  }
};

inline constexpr std::size_t kShapesListed = 10;
[[nodiscard]] CostSummary cost_summary(const RunView& view, std::size_t shapes = kShapesListed);

}  // namespace trainyard
