#include "kernels/gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/roofline.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// cuBLAS on Volta, Turing and Ampere. DU-09799-001 section 4.1 lists the sizes.
constexpr std::array ampere_tiles = {Tile{256, 128, 32}, Tile{128, 256, 32}, Tile{128, 128, 32},
                                     Tile{256, 64, 32},  Tile{64, 256, 32},  Tile{128, 64, 32},
                                     Tile{64, 128, 32},  Tile{64, 64, 32}};
// Two consumer warp groups of 64 rows each; CUTLASS 3 kernels for sm90.
constexpr std::array hopper_tiles = {Tile{256, 128, 64}, Tile{128, 256, 64}, Tile{128, 128, 64},
                                     Tile{64, 256, 64},  Tile{256, 64, 64},  Tile{128, 64, 64},
                                     Tile{64, 128, 64},  Tile{64, 64, 64}};
// One tensor-core instruction spans two SMs: the pair computes 256 rows, so each SM holds 128.
constexpr std::array blackwell_tiles = {Tile{256, 256, 64}, Tile{128, 256, 64}, Tile{256, 128, 64},
                                        Tile{128, 128, 64}, Tile{128, 64, 64},  Tile{64, 128, 64},
                                        Tile{64, 64, 64}};

struct Generation {
  std::string_view name;
  std::span<const Tile> tiles;
};

constexpr std::array generations = {
    Generation{"volta", ampere_tiles},  Generation{"turing", ampere_tiles},
    Generation{"ampere", ampere_tiles}, Generation{"ada", ampere_tiles},
    Generation{"hopper", hopper_tiles}, Generation{"blackwell", blackwell_tiles},
    Generation{"cdna3", hopper_tiles}};

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

TileCount count_tiles(const ResultShape& result, const Tile& tile, std::int64_t sms) {
  TY_CHECK(result.m > 0 && result.n > 0 && result.batch > 0, result.m, result.n, result.batch);
  TY_CHECK(tile.m > 0 && tile.n > 0 && sms > 0, tile.m, tile.n, sms);
  const std::int64_t rows = ceil_divide(result.m, tile.m);
  const std::int64_t columns = ceil_divide(result.n, tile.n);
  TileCount count;
  count.tiles = rows * columns * result.batch;
  count.waves = ceil_divide(count.tiles, sms);
  count.wave_efficiency = static_cast<double>(count.tiles) / static_cast<double>(count.waves * sms);
  count.tile_efficiency =
      static_cast<double>(result.m) * static_cast<double>(result.n) /
      (static_cast<double>(rows * tile.m) * static_cast<double>(columns * tile.n));
  return count;
}

std::span<const Tile> tile_set(std::string_view generation) {
  for (const auto& entry : generations)
    if (entry.name == generation) return entry.tiles;
  return {};
}

std::vector<std::string> tile_generations() {
  std::vector<std::string> names;
  for (const auto& entry : generations) names.emplace_back(entry.name);
  return names;
}

std::string to_text(const Tile& tile) { return fmt::format("{}x{}", tile.m, tile.n); }

// Large tiles reuse operands more per byte loaded, so a tile of at least 2^15 elements reaches
// most.
double tile_rate(const TileModel& model, const Tile& tile) {
  constexpr double largest = 32768.0;
  const auto elements = static_cast<double>(tile.m * tile.n);
  if (elements >= largest) return model.largest_tile;
  return model.largest_tile * std::pow(elements / largest, model.tile_exponent);
}

double pass_factor(const PassFactors& factors, GemmPass pass) {
  switch (pass) {
    case GemmPass::Forward:
      return 1.0;
    case GemmPass::DataGrad:
      return factors.data_grad;
    case GemmPass::WeightGrad:
      return factors.weight_grad;
  }
  return 1.0;
}

Seconds accumulation_time(const GpuSheet& sheet, const GemmModel& model, Bytes further_traffic) {
  return (further_traffic / sheet.hbm) * model.accumulation_exposed;
}

namespace {

// Numbers of parts of k that separate thread blocks sum. They help GEMMs with too few tiles to fill
// the GPU.
constexpr std::array<std::int64_t, 5> splits = {1, 2, 4, 8, 16};

// Time of `tiles` tiles whose main loop has depth `depth`, at `rate` on each SM.
Seconds waves_time(double sms, FlopsPerSecond rate, const TileModel& model, const Tile& tile,
                   std::int64_t tiles, std::int64_t depth) {
  const double waves = std::ceil(static_cast<double>(tiles) / sms);
  const double steps = std::ceil(static_cast<double>(depth) / static_cast<double>(tile.k));
  const Flops work{2.0 * static_cast<double>(tile.m * tile.n) * steps *
                   static_cast<double>(tile.k)};
  return (work / rate) * waves + model.prologue;
}

// The minimum over tiles and splits of k. `tiles_of(tile)` counts the tiles of the whole launch.
// `partial` is the fp32 traffic of one additional part of k. `slowdown` is the time of arithmetic
// over that in the tables.
template <class TilesOf>
Seconds best_time(const GpuSheet& sheet, const TileModel& model, const Kernel& kernel,
                  DataType dtype, std::int64_t k, Bytes partial, double slowdown,
                  const TilesOf& tiles_of) {
  const BytesPerSecond bandwidth{sheet.hbm.value() * model.bandwidth_efficiency};
  const Bytes unsplit = hbm_bytes(kernel);
  const auto sms = static_cast<double>(sheet.sms);
  const double peak_of_sm = sheet.peak(dtype).value() / sms;
  Seconds best{std::numeric_limits<double>::infinity()};
  // Stops early without changing the result: no choice is faster than its traffic, and splitting k
  // only adds traffic.
  for (const Tile& tile : tile_set(sheet.generation)) {
    if (best <= unsplit / bandwidth) break;
    const std::int64_t tiles = tiles_of(tile);
    const FlopsPerSecond rate{peak_of_sm * tile_rate(model, tile)};
    for (const std::int64_t split : splits) {
      // A part of k has at least four steps of the main loop.
      if (split > 1 && k < split * tile.k * 4) break;
      const Bytes traffic = unsplit + partial * (split > 1 ? static_cast<double>(split) : 0.0);
      if (best <= traffic / bandwidth) break;
      const Seconds compute =
          waves_time(sms, rate, model, tile, tiles * split, ceil_divide(k, split)) * slowdown;
      best = std::min(best, std::max(compute, traffic / bandwidth));
    }
  }
  return best + model.launch;
}

const GemmTable* find_gemm_table(const GemmModel& model, DataType dtype) {
  const auto exact = std::find_if(model.tables.begin(), model.tables.end(),
                                  [&](const GemmTable& t) { return t.dtype == dtype; });
  if (exact != model.tables.end()) return &*exact;
  return model.tables.empty() ? nullptr : &model.tables.front();
}

// True if both types use the same tensor-core path at the same rate.
bool same_path(DataType a, DataType b) {
  const auto half = [](DataType t) { return t == DataType::Bf16 || t == DataType::Fp16; };
  return a == b || (half(a) && half(b));
}

// The factor of the measurements on the model's time at a point, and its provenance.
struct GemmCorrection {
  double factor = 1.0;
  Provenance provenance = Provenance::Extrapolated;
};

GemmCorrection gemm_correction_at(const GemmModel& model, DataType dtype, GemmPass pass,
                                  const std::array<std::int64_t, 3>& shape) {
  const GemmTable* table = find_gemm_table(model, dtype == DataType::Fp16 ? DataType::Bf16 : dtype);
  if (table == nullptr) return {};
  const auto reading = table->correction.at(shape);
  GemmCorrection found{std::exp(reading.value) * pass_factor(model.pass, pass),
                       Provenance::Extrapolated};
  if (!reading.inside || !same_path(dtype, table->dtype)) return found;
  const auto node = table->correction.node(shape);
  const bool hit = node && table->measured[*node] && pass == GemmPass::Forward &&
                   dtype == table->dtype && model.sustained_time == 1.0;
  found.provenance = hit ? Provenance::Measured : Provenance::Interpolated;
  return found;
}

}  // namespace

Seconds tile_model_time(const GpuSheet& sheet, const TileModel& model, const Gemm& gemm,
                        double slowdown) {
  TY_CHECK(gemm.m > 0 && gemm.n > 0 && gemm.k > 0 && gemm.batch > 0, gemm.m, gemm.n, gemm.k);
  // Each part of k writes its fp32 results, and the sum reads them again: 8 bytes for each number.
  const Bytes partial{8.0 * static_cast<double>(gemm.m) * static_cast<double>(gemm.n) *
                      static_cast<double>(gemm.batch)};
  return best_time(
      sheet, model, gemm, gemm.dtype, gemm.k, partial, slowdown, [&](const Tile& tile) {
        return count_tiles({.m = gemm.m, .n = gemm.n, .batch = gemm.batch}, tile, sheet.sms).tiles;
      });
}

Cost gemm_cost(const GpuSheet& sheet, const GemmModel& model, const Gemm& gemm) {
  // A batch of equal GEMMs fills the GPU like one GEMM with all their rows.
  const auto found =
      gemm_correction_at(model, gemm.dtype, gemm.pass, {gemm.m * gemm.batch, gemm.n, gemm.k});
  Gemm alone = gemm;
  alone.accumulate_fp32 = false;
  const Seconds time =
      tile_model_time(sheet, model.tile, alone, model.sustained_time) * found.factor +
      accumulation_time(sheet, model, hbm_bytes(gemm) - hbm_bytes(alone));
  const bool known = gemm.batch == 1;
  return at_least({time, known ? found.provenance : Provenance::Extrapolated},
                  roofline(flops(gemm), hbm_bytes(gemm), sheet.peak(gemm.dtype), sheet.hbm));
}

}  // namespace trainyard
