// The seam to kernels/: what one kernel costs on one GPU, and how well that is known (design D5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/base/units.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard {

// How an answer was found, best first. Roofline: the data sheet's bound is the answer, since what
// measurements promise would beat it or nothing else is known.
enum class Provenance : std::uint8_t { Measured, Interpolated, Extrapolated, Roofline };
inline constexpr std::size_t provenances = 4;
[[nodiscard]] std::string_view to_string(Provenance provenance);

struct Cost {
  Seconds time;
  Provenance provenance = Provenance::Extrapolated;
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  // Time of the kernel alone on the GPU, at least its roofline. Deterministic.
  [[nodiscard]] virtual Cost cost(const Kernel& kernel) const = 0;
};

}  // namespace trainyard
