// Constants read off single measurements: layouts, sustained speed, backward attention, bandwidth.
//
// Each is a median of ratios between rows of one source, so that the source's own conditions cancel
// out; the text says which rows, and goes into the profile beside the number.
#pragma once

#include <string>
#include <string_view>

#include "kernels/fit/published.hpp"
#include "kernels/gemm.hpp"

namespace trainyard::fit {

struct Figure {
  double value = 1.0;
  std::string source;  // the rows it was read off, or why there are none
  bool measured = false;
};

// Time of a gradient product over the forward one of the same m, n and k as the model prices both.
[[nodiscard]] Figure pass_time(const GpuSheet& sheet, const GemmModel& model, const Published& rows,
                               std::string_view gpu, GemmPass pass);
// Time of products in layers run back to back (forward, at least 1e11 FLOP) over the burst table's.
[[nodiscard]] Figure sustained_time(const GpuSheet& sheet, const GemmModel& model,
                                    const Published& rows, std::string_view gpu);
// Backward FLOP/s over forward FLOP/s of the same attention, head size 128, large enough to fill
// the GPU.
[[nodiscard]] Figure backward_relative(const Published& rows, std::string_view gpu);
// Time of the fastest product found on a GPU over what a sibling's efficiencies promise for it.
[[nodiscard]] Figure best_product_time(const GpuSheet& sheet, const GemmModel& sibling,
                                       const Published& rows, std::string_view gpu);
// Share of the data sheet's bandwidth in the scale and triad kernels.
[[nodiscard]] Figure stream_share(const Published& rows, std::string_view gpu, double sheet_rate);
// Shortest time from one kernel to the next, replayed from a graph.
[[nodiscard]] Figure launch_floor(const Published& rows);

}  // namespace trainyard::fit
