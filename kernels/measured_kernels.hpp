// Kernels that were measured on the GPU itself. They have exactly the measured time, and similar
// shapes are corrected by them.
//
//    MeasuredKernels rows;
//    const Kernel kernel = Gemm{.m = 8192, .n = 1280, .k = 8192};
//    rows.add({.kernel = kernel, .time = Seconds{190e-6}}, Seconds{200e-6});   // modelled: 200 us
//    rows.exact(kernel);                   // 190 us; nothing for a kernel that was not measured
//    rows.correction(kernel).log_factor;   // about log(190 / 200); near 0 for distant shapes
//
// A profile stores them in its section "measured" (`trainyard profile merge` writes it). The
// logarithm of measured over modelled time is interpolated by kriging (kriging.hpp) among kernels
// of the same kind, precision and pass. The mean is zero, so that a shape several octaves away from
// every measurement keeps the time of the profile.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kriging.hpp"
#include "sim/base/units.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard {

struct MeasuredKernel {
  Kernel kernel;
  Seconds time;
  // Measured in a training step (`trainyard import kineto`), not alone. The time has the clock of a
  // step and the framework's overhead. It counts for this shape only, because the overhead of other
  // shapes is a factor of the framework.
  bool in_step = false;
};

class MeasuredKernels {
 public:
  // REQUIRES: measured alone.
  void add(const MeasuredKernel& measured, Seconds modelled);
  // REQUIRES: measured in a step.
  void add_in_step(const MeasuredKernel& measured);
  [[nodiscard]] bool empty() const { return exact_.empty(); }
  [[nodiscard]] std::optional<Seconds> exact(const Kernel& kernel) const;
  [[nodiscard]] std::optional<Seconds> in_step(const Kernel& kernel) const;

  struct Reading {
    double log_factor = 0.0;
    bool near = false;  // a measurement is within an octave in every dimension
  };
  [[nodiscard]] Reading correction(const Kernel& kernel) const;

 private:
  std::map<std::string, Seconds> exact_;  // by the text of the shape
  std::map<std::string, Seconds> in_step_;
  std::map<std::string, std::vector<Observation>> by_kind_;
};

}  // namespace trainyard
