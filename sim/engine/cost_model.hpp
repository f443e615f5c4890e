// The interface to kernels/: how long one kernel takes on one GPU, and how well that is known
// (decision D5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/base/units.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard {

// How a cost was found, best first. Roofline: the bound of the data sheet is the answer, either
// because a figure from measurements would be below that bound or because nothing else is known.
enum class Provenance : std::uint8_t { Measured, Interpolated, Extrapolated, Roofline };
inline constexpr std::size_t provenances = 4;
[[nodiscard]] std::string_view to_string(Provenance provenance);

struct Cost {
  Seconds time;
  Provenance provenance = Provenance::Extrapolated;
  // Measured in a step of the framework, so the time includes what the framework's kernels cost
  // over those of the profile.
  bool in_step = false;
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  // Time of the kernel when it runs alone on the GPU, at least its roofline. Deterministic.
  [[nodiscard]] virtual Cost cost(const Kernel& kernel) const = 0;
};

}  // namespace trainyard
