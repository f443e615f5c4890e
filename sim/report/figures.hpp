// The key figures of a run: how fast it is, which share of the hardware's peak it uses, and how
// well the kernel durations behind them are known.
//
//    MFU = model FLOPs / (step time * GPUs * peak)      HFU = the same with recomputation counted
//
// (Korthikanti et al. 2022, arXiv 2205.05198, section 6.3). Worked: GPT-3 175B, 64 sequences of
// 2048 are 1.4109e17 FLOP; in 13.75 s on 64 GPUs this is 160.3 TFLOP/s each, 51.4 % of an A100's
// 312.
//
// A run whose GEMMs use 8 or 4 bits has both figures twice, because publications divide either by
// the 16-bit peak or by the peak of the GEMMs' precision, which is 2 or 4 times as high.
//
//    Figures f = figures(view);
//    f.step_time_s; f.mfu.value_or(0);   // a bare workload has no such figure
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/report/run_view.hpp"

namespace trainyard {

// MFU and HFU under one convention for attention, against one peak.
struct Utilisation {
  std::string attention;  // convention that counts the FLOPs of attention: "causal" or "full"
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
  std::optional<double> mfu, hfu;  // in the convention of the facts, against their first peak
  // The utilisation in the convention of the facts against each peak, then in the other convention.
  // Empty where FLOPs or peaks are not known.
  std::vector<Utilisation> utilisation;
};

[[nodiscard]] Figures figures(const RunView& view);

// The whole training, if every step takes as long as this one.
//
//    days = token budget / tokens of a step * step time / 86,400 s      cost = GPU-hours * price
//
// Worked: 15e12 tokens in steps of 1.049e6 tokens and 12.43 s take 2,058 days on 8 GPUs, which are
// 395,100 GPU-hours.
struct TrainingTotal {
  double tokens = 0.0;
  double days = 0.0;
  double gpu_hours = 0.0;
  std::optional<double> cost = {};  // in the currency of the price
};
// Returns nothing without a token budget.
[[nodiscard]] std::optional<TrainingTotal> training_total(const RunView& view);

// The time of each kernel, summed over all ranks. Index: Workload::kernels.
[[nodiscard]] std::vector<double> kernel_time(const RunView& view);

// The time that one kernel takes in the whole run.
struct KernelUse {
  std::uint32_t kernel = 0;  // index into Workload::kernels
  Provenance provenance = Provenance::Extrapolated;
  double time_s = 0.0;  // summed over all ranks
  double share = 0.0;   // of the busy time of all ranks
};

// The share of busy time by the provenance of the kernels' durations (measured, interpolated,
// extrapolated, roofline), and the kernel shapes that are most worth measuring.
struct CostSummary {
  double busy_s = 0.0;                      // kernel time of all ranks together
  std::array<double, provenances> share{};  // by Provenance; sums to 1 unless nothing runs
  std::vector<KernelUse> worth_measuring;   // kernels that are not measured, largest share first
  [[nodiscard]] double of(Provenance provenance) const {
    return share[static_cast<std::size_t>(provenance)];
  }
};

// The result lists at most `shapes` shapes.
[[nodiscard]] CostSummary cost_summary(const RunView& view, std::size_t shapes = 10);

}  // namespace trainyard
