// Constants read off single measurements: layouts, sustained speed, backward attention, bandwidth.
//
// Each is a median of ratios between rows of one source, so that the source's own conditions cancel
// out; the text says which rows, and goes into the profile beside the number.
//
//   const Published rows = read_published(directory / "other.json");
//   const Figure exposed = sustained_time(sheet, model, rows, "A100-SXM4-80GB");
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
  std::string gpu;     // as the source names it: "A100-SXM4-80GB"
  std::string source;  // repository
  Gemm gemm;
  double seconds = 0.0;
  bool adds_to_half = false;  // a weight gradient that adds into 16-bit gradients
};

// The products of equally filled experts as a training framework issues them, expert by expert.
struct PublishedExperts {
  std::string gpu;
  GroupedGemm gemm;
  double seconds = 0.0;
  bool adds_to_half = false;
};

// FLOP/s of one call, causal FLOPs counted once.
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

// The fastest product a search over shapes found.
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
  std::string source;  // the rows it was read off, or why there are none
  bool measured = false;
};

// Time of a gradient product over the forward one of the same m, n and k as the model prices both,
// read off products that took 0.5 ms or more, for both then run at the clock that power allows.
[[nodiscard]] Figure pass_time(const GpuSheet& sheet, const GemmModel& model, const Published& rows,
                               std::string_view gpu, GemmPass pass);
// Time that adding weight gradients into fp32 takes beside the product, in units of what its
// further traffic takes at the data sheet's bandwidth. Read off products that were timed adding
// into fp32 and into 16 bits; where a GPU has none, what makes weight gradients otherwise as slow
// as data gradients (on the GPU that has such pairs the two agree within 1 %).
[[nodiscard]] Figure accumulation_exposed(const GpuSheet& sheet, GemmModel model,
                                          const Published& rows, std::string_view gpu,
                                          double data_grad);
// The time between two experts' products, however small, that explains those of a GPU best (mean
// absolute logarithmic error) beside the model's own times.
[[nodiscard]] Figure issue_time(const GpuSheet& sheet, const GemmModel& model,
                                const Published& rows, std::string_view gpu);
// Time of products in layers run back to back (forward, at least 1e11 FLOP) over the burst table's.
[[nodiscard]] Figure sustained_time(const GpuSheet& sheet, const GemmModel& model,
                                    const Published& rows, std::string_view gpu);
// Backward FLOP/s over forward FLOP/s of the same attention, head size 128, large enough to fill
// the GPU.
[[nodiscard]] Figure backward_relative(const Published& rows, std::string_view gpu);
// Time of attention whose queries and keys are wider than its values, as measured on a GPU, over
// what the model says of it, where it fills the GPU.
[[nodiscard]] Figure latent_time(const GpuSheet& sheet, const AttentionModel& model,
                                 const Published& rows, std::string_view gpu, bool backward);
// Time of the fastest product found on a GPU over what a sibling's efficiencies promise for it.
[[nodiscard]] Figure best_gemm_time(const GpuSheet& sheet, const GemmModel& sibling,
                                    const Published& rows, std::string_view gpu);
// Share of the data sheet's bandwidth in the scale and triad kernels.
[[nodiscard]] Figure stream_share(const Published& rows, std::string_view gpu, double sheet_rate);
// Shortest time from one kernel to the next, replayed from a graph.
[[nodiscard]] Figure launch_floor(const Published& rows);

}  // namespace trainyard::fit
