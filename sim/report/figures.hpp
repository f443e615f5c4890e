// The key figures of a run: how fast it is, how much of the hardware's peak it uses, and how well
// the durations behind them are known.
//
//   MFU = model FLOPs / (step time * GPUs * peak)      HFU = the same with recomputation counted
//
// (Korthikanti et al. 2022, arXiv 2205.05198, section 6.3). Worked: GPT-3 175B, 64 sequences of
// 2048 are 1.4109e17 FLOP; in 13.75 s on 64 GPUs 160.3 TFLOP/s each, of an A100's 312 that is 51.4
// %.
//
// A run that multiplies in 8 or 4 bits has both figures twice: published ones divide by the 16-bit
// peak or by that of the products, which is 2 or 4 times as high.
//
//   Figures f = figures(view);
//   f.step_time_s; f.mfu.value_or(0);   // a bare workload has no such figure
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/report/run_view.hpp"

namespace trainyard {

struct Utilisation {
  std::string attention;  // how its FLOPs are counted: "causal" or "full"
  PeakRate peak;
  double mfu = 0.0;
  double hfu = 0.0;
};

struct Figures {
  double step_time_s = 0.0;
  std::optional<double> tokens_per_s;
  std::optional<double> tokens_per_s_per_gpu;
  std::optional<double> model_tflops_per_gpu;
  std::optional<double> hardware_tflops_per_gpu;
  std::optional<double> mfu, hfu;  // in the convention of the facts, of their first peak
  // In that convention against each peak, then in the other one. Empty where nothing is known.
  std::vector<Utilisation> utilisation;
};

[[nodiscard]] Figures figures(const RunView& view);

struct KernelUse {
  std::uint32_t kernel = 0;  // index into Workload::kernels
  Provenance provenance = Provenance::Extrapolated;
  double time_s = 0.0;  // of all ranks
  double share = 0.0;   // of the busy time of all ranks
};

// The share of busy time whose kernels were measured, interpolated, extrapolated or the roofline,
// and the shapes that would be most worth measuring (design D5).
struct CostSummary {
  double busy_s = 0.0;                      // kernel time of all ranks together
  std::array<double, provenances> share{};  // by Provenance; sums to 1 unless nothing ran
  std::vector<KernelUse> worth_measuring;   // not measured, largest share first
  [[nodiscard]] double of(Provenance provenance) const {
    return share[static_cast<std::size_t>(provenance)];
  }
};

// Lists at most `shapes` shapes.
[[nodiscard]] CostSummary cost_summary(const RunView& view, std::size_t shapes = 10);

}  // namespace trainyard
