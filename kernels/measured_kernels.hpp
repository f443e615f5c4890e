// Kernels that someone measured on the very GPU: they are answered as measured, and shapes near
// them lean on them.
//
//   MeasuredKernels rows;
//   rows.add(Gemm{.m = 8192, .n = 1280, .k = 8192}, Seconds{190e-6}, model_time);
//   rows.exact(kernel);        // 190 us, or nothing
//   rows.correction(kernel);   // log(measured / modelled) near by; 0 far from everything measured
//
// A profile holds them in its section "measured" (`trainyard profile merge` writes it). What is
// read between them is the logarithm of measured over modelled time, by kriging (kriging.hpp) among
// kernels of the same kind, precision and pass; the mean is zero, so that a shape several octaves
// away from every measurement keeps what the profile says.
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
};

class MeasuredKernels {
 public:
  void add(const MeasuredKernel& measured, Seconds modelled);
  [[nodiscard]] bool empty() const { return exact_.empty(); }
  [[nodiscard]] std::optional<Seconds> exact(const Kernel& kernel) const;

  struct Reading {
    double log_factor = 0.0;
    bool near = false;  // a measurement lies within an octave in every extent
  };
  [[nodiscard]] Reading correction(const Kernel& kernel) const;

 private:
  std::map<std::string, Seconds> exact_;  // by shape
  std::map<std::string, std::vector<Observation>> by_kind_;
};

}  // namespace trainyard
