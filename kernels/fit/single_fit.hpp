// Constants that are derived from single measurements: layouts, sustained speed, backward
// attention, bandwidth.
//
// Each is a median of ratios between rows of one source, so that the conditions of that source
// cancel out. The `source` text names the rows and is stored in the profile next to the number.
//
//    const Published rows = read_published(directory / "other.json");
//    const Figure exposed = sustained_time(sheet, model, rows, "A100-SXM4-80GB");
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention.hpp"
#include "kernels/gemm.hpp"
#include "sim/base/units.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard::fit {

struct PublishedGemm {
  std::string gpu;     // the name in the source: "A100-SXM4-80GB"
  std::string source;  // repository
  Gemm gemm;
  double seconds = 0.0;
  bool adds_to_half = false;  // a weight gradient that accumulates into 16-bit gradients
};

// The GEMMs of equally loaded experts as a training framework launches them, expert by expert.
struct PublishedExperts {
  std::string gpu;
  GroupedGemm gemm;
  double seconds = 0.0;
  bool adds_to_half = false;
};

// FLOP/s of one call; only the FLOPs of the causal half count.
struct PublishedAttention {
  std::string gpu;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim_qk = 0;
  std::int64_t head_dim_v = 0;
  bool backward = false;
  double flops_rate = 0.0;
};

struct PublishedStream {
  std::string gpu;
  std::string operation;  // scale, triad, ...
  double bytes_rate = 0.0;
};

struct PublishedLaunch {
  std::string gpu;
  double seconds = 0.0;
};

// The fastest GEMM that a search over shapes found.
struct PublishedBest {
  std::string gpu;
  Gemm gemm;
  double seconds = 0.0;
};

struct Published {
  std::vector<PublishedGemm> gemms;
  std::vector<PublishedExperts> experts;
  std::vector<PublishedAttention> attentions;
  std::vector<PublishedStream> streams;
  std::vector<PublishedLaunch> launches;
  std::vector<PublishedBest> bests;
};

[[nodiscard]] Published read_published(const std::filesystem::path& file);

struct Figure {
  double value = 1.0;
  std::string source;  // the rows it was derived from, or the reason why there are none
  bool measured = false;
};

// Time of a gradient GEMM over the forward GEMM of the same m, n and k, both as predicted by the
// model. It is derived from GEMMs of 0.5 ms or more, because both then run at the clock that power
// allows.
[[nodiscard]] Figure pass_time(const GpuSheet& sheet, const GemmModel& model, const Published& rows,
                               std::string_view gpu, GemmPass pass);
// Time that accumulating weight gradients in fp32 takes in addition to the GEMM, in units of the
// time of its additional traffic at the data sheet's bandwidth. It is derived from GEMMs that were
// timed both with fp32 and with 16-bit accumulation. For a GPU without such pairs, it is the value
// at which weight gradients are otherwise as slow as data gradients (on the GPU that has pairs, the
// two methods agree within 1 %).
[[nodiscard]] Figure accumulation_exposed(const GpuSheet& sheet, GemmModel model,
                                          const Published& rows, std::string_view gpu,
                                          double data_grad);
// The minimum time between two experts' GEMMs that explains the measurements of a GPU best (mean
// absolute logarithmic error), together with the model's own times.
[[nodiscard]] Figure issue_time(const GpuSheet& sheet, const GemmModel& model,
                                const Published& rows, std::string_view gpu);
// Time of GEMMs in layers run back to back (forward, at least 1e11 FLOP) over that of the burst
// table.
[[nodiscard]] Figure sustained_time(const GpuSheet& sheet, const GemmModel& model,
                                    const Published& rows, std::string_view gpu);
// Backward FLOP/s over forward FLOP/s of the same attention, for head size 128 and shapes that fill
// the GPU.
[[nodiscard]] Figure backward_relative(const Published& rows, std::string_view gpu);
// Measured time, over the model's time, of attention whose queries and keys are wider than its
// values, for shapes that fill the GPU.
[[nodiscard]] Figure latent_time(const GpuSheet& sheet, const AttentionModel& model,
                                 const Published& rows, std::string_view gpu, bool backward);
// Time of the fastest GEMM found on a GPU over the time that a sibling's efficiencies predict for
// it.
[[nodiscard]] Figure best_gemm_time(const GpuSheet& sheet, const GemmModel& sibling,
                                    const Published& rows, std::string_view gpu);
// Share of the data sheet's bandwidth that the scale and triad kernels reach.
[[nodiscard]] Figure stream_share(const Published& rows, std::string_view gpu, double sheet_rate);
// Shortest time from one kernel to the next, replayed from a CUDA graph.
[[nodiscard]] Figure launch_floor(const Published& rows);

}  // namespace trainyard::fit
