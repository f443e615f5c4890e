// Time of a GEMM: a tile model of the GPU generation, corrected by measurements.
//
//    const GpuProfile h100 = load_profile("h100");
//    Seconds t = gemm_cost(h100.sheet, h100.gemm, Gemm{.m = 4096, .n = 12288, .k = 4096}).time;
//
// The physical model comes first: t = launch + max(waves of tiles, traffic), with the best tile and
// split of k (reference: NVIDIA DU-09799-001). Measurements then correct it. The profile stores the
// measured share of the roofline at every node of a grid of shapes. log(measured / model) is
// interpolated between the nodes, so that a query keeps its own tile and wave quantisation.
//
// A GPU computes a GEMM tile by tile, one tile per SM at a time. This causes two kinds of waste.
// The last row and column of tiles extend beyond the result (tile quantisation), and the last wave
// leaves SMs idle (wave quantisation, sections 4.1 and 4.2 of DU-09799-001):
//
//    TileCount c = count_tiles({.m = 1793, .n = 1793}, {.m = 256, .n = 128}, 108);
//    c.tiles;             // 8 * 15 = 120
//    c.waves;             // 2: the second wave runs 12 tiles on 108 SMs
//    c.wave_efficiency;   // 120 / 216 = 0.555556
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gpu.hpp"
#include "kernels/surface.hpp"

namespace trainyard {

// The block of the result that one thread block computes, and the depth of one step of its main
// loop.
struct Tile {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 32;
};

struct TileCount {
  std::int64_t tiles = 0;
  std::int64_t waves = 0;
  double wave_efficiency = 0.0;  // tiles / (waves * SMs)
  double tile_efficiency = 0.0;  // share of the computed elements that belong to the result
};

// The size of the result matrix. `batch` counts equal GEMMs, and also split-K parts.
struct ResultShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t batch = 1;
};

[[nodiscard]] TileCount count_tiles(const ResultShape& result, const Tile& tile, std::int64_t sms);

// The tiles that the libraries of a GPU generation choose from, largest first. Each generation
// ("volta", "turing", "ampere", "ada", "hopper", "blackwell", "cdna3") has its set; an unknown one
// has none.
[[nodiscard]] std::span<const Tile> tile_set(std::string_view generation);

// The names of the generations that tile_set has tiles for.
[[nodiscard]] std::vector<std::string> tile_generations();

// "256x128".
[[nodiscard]] std::string to_text(const Tile& tile);

// Constants of the tile model. The defaults are the mid-points of published ranges: a 256x128 tile
// reaches 0.9 to 1 of an SM's rate, 128x128 0.8 to 0.9, 64x64 0.5 to 0.6 (DU-09799-001 figure 5).
struct TileModel {
  Seconds launch{2.5e-6};              // of an empty kernel, launch to launch
  Seconds prologue{1.0e-6};            // pipeline fill and drain of one tile
  double bandwidth_efficiency = 0.85;  // share of HBM bandwidth that a memory-bound GEMM reaches
  double largest_tile = 0.95;          // share of an SM's peak reached by tiles of >= 2^15 elements
  double tile_exponent = 0.2;          // a tile of half the elements reaches 2^-exponent of that
};

struct GemmTable {
  DataType dtype = DataType::Bf16;
  Surface correction;          // log(measured / model) over (m, n, k)
  std::vector<bool> measured;  // by node: false where the fit filled a hole
  double best_share = 1.0;     // the largest share of the peak that any GEMM reaches
};

// Time relative to the forward layout (TN) at equal shape.
struct PassFactors {
  double data_grad = 1.0;
  double weight_grad = 1.0;
};

struct GemmModel {
  TileModel tile{};
  PassFactors pass{};
  // Time of the same arithmetic where layers run back to back, relative to the tables, which were
  // measured in short bursts at boost clock. 1 where nobody compared the two. The memory clock does
  // not change.
  double sustained_time = 1.0;
  // Adding to fp32 gradients reads and writes 8 bytes of each gradient, where the GEMM alone writes
  // 2. This is the share of the time of this additional traffic, at the data sheet's bandwidth,
  // that arithmetic does not hide. A tile adds only after its main loop.
  double accumulation_exposed = 1.0;
  std::vector<GemmTable> tables{};
};

// The physical model alone. It is never faster than the roofline, and never faster for a larger m,
// n or k. The arithmetic takes `slowdown` times as long as at the clock of the tables.
[[nodiscard]] Seconds tile_model_time(const GpuSheet& sheet, const TileModel& model,
                                      const Gemm& gemm, double slowdown = 1.0);

// Model and measurements together, at least the roofline. Provenance: Measured at an exact node of
// the table of this dtype, forward, unbatched and at the tables' burst clock. Interpolated inside
// the grid. Roofline where the corrected model would be faster than the data sheet allows.
// Extrapolated for everything else.
[[nodiscard]] Cost gemm_cost(const GpuSheet& sheet, const GemmModel& model, const Gemm& gemm);

// For other kernels that use the same tiles (grouped_gemm.hpp): the share of an SM's peak that a
// tile reaches, the factor of a pass, and the time that adding to fp32 gradients takes in addition
// to the GEMM.
[[nodiscard]] double tile_rate(const TileModel& model, const Tile& tile);
[[nodiscard]] double pass_factor(const PassFactors& factors, GemmPass pass);
[[nodiscard]] Seconds accumulation_time(const GpuSheet& sheet, const GemmModel& model,
                                        Bytes further_traffic);

}  // namespace trainyard
