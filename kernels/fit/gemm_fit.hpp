// Fits the tile model and its correction table to measured GEMMs, and evaluates the result on
// shapes that were not part of the fit.
//
//    TileModel tile = fit_tile_model(sheet, DataType::Bf16, samples);
//    GemmFit fit = fit_gemm_table(sheet, DataType::Bf16, tile, samples, grid_of(samples));
//    Errors unseen = held_out_gemm(sheet, DataType::Bf16, samples, {.share = 0.2, .seed = 1});
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/fit/samples.hpp"
#include "kernels/gemm.hpp"

namespace trainyard::fit {

struct GemmFit {
  TileModel tile{};
  std::array<std::vector<std::int64_t>, 3> axes{};  // m, n, k
  std::vector<double> share{};                      // of the roofline, per node, row-major
  std::vector<bool> measured{};                     // false: filled from the neighbours
};

// The constants that minimise the mean absolute logarithmic error of the bare tile model.
[[nodiscard]] TileModel fit_tile_model(const GpuSheet& sheet, DataType dtype,
                                       const std::vector<Sample>& samples);
// The correction table over the grid of all values that occur, with its holes filled.
[[nodiscard]] GemmFit fit_gemm_table(const GpuSheet& sheet, DataType dtype, const TileModel& tile,
                                     const std::vector<Sample>& samples,
                                     const std::array<std::vector<std::int64_t>, 3>& axes);
[[nodiscard]] std::array<std::vector<std::int64_t>, 3> grid_of(const std::vector<Sample>& samples);
[[nodiscard]] GemmTable table_of(const GpuSheet& sheet, DataType dtype, const GemmFit& fit);

// Errors of predictions for samples that were not part of the fit.
[[nodiscard]] Errors held_out_gemm(const GpuSheet& sheet, DataType dtype,
                                   const std::vector<Sample>& samples, const HoldOut& hold_out);
// The same for a fit to the seen shapes, on the grid of all shapes.
[[nodiscard]] Errors unseen_gemm(const GpuSheet& sheet, DataType dtype,
                                 const std::vector<Sample>& seen,
                                 const std::vector<Sample>& unseen);
// The same with whole values of n and k left out of the grid: the error at a width between two
// measured ones.
[[nodiscard]] Errors held_out_widths(const GpuSheet& sheet, DataType dtype,
                                     const std::vector<Sample>& samples);

}  // namespace trainyard::fit
