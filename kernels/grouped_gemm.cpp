#include "kernels/grouped_gemm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/roofline.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

std::int64_t total_rows(const GroupedGemm& gemm) {
  return std::accumulate(gemm.rows.begin(), gemm.rows.end(), std::int64_t{0});
}

double steps_of(std::int64_t depth, const Tile& tile) {
  return std::ceil(static_cast<double>(depth) / static_cast<double>(tile.k));
}

// Steps of the main loop: of all tiles of all experts, and of the deepest tile.
struct Work {
  double steps = 0.0;
  double deepest = 0.0;
  double tiles = 0.0;
};

// A weight gradient has results of n x k and the expert's rows as depth; the other passes have one
// result row per routed token.
Work work_of(const GroupedGemm& gemm, const Tile& tile, std::int64_t sms) {
  const bool weight = gemm.pass == GemmPass::WeightGrad;
  Work work;
  for (const std::int64_t rows : gemm.rows) {
    if (rows == 0) continue;
    const auto tiles = static_cast<double>(
        count_tiles({.m = weight ? gemm.n : rows, .n = weight ? gemm.k : gemm.n}, tile, sms).tiles);
    const double depth = steps_of(weight ? rows : gemm.k, tile);
    work.tiles += tiles;
    work.steps += tiles * depth;
    work.deepest = std::max(work.deepest, depth);
  }
  return work;
}

// Steps that one SM runs. Tiles of equal depth run in whole waves. Tiles of different depth fill
// each other's gaps, but not below the depth of the deepest tile.
double wave_steps(const GroupedGemm& gemm, const Work& work, double sms) {
  if (gemm.pass == GemmPass::WeightGrad) return std::max(work.deepest, work.steps / sms);
  return std::ceil(work.tiles / sms) * work.deepest;
}

const GroupedTable* find_table(const GroupedModel& model, DataType dtype) {
  const DataType wanted = dtype == DataType::Fp16 ? DataType::Bf16 : dtype;
  for (const GroupedTable& table : model.tables)
    if (table.dtype == wanted) return &table;
  return nullptr;
}

// The permute time that is removed from a module may have been fused and hidden. The table's factor
// must therefore not make a group faster than the best single GEMM.
double best_share(const GemmModel& model, DataType dtype) {
  const DataType wanted = dtype == DataType::Fp16 ? DataType::Bf16 : dtype;
  for (const GemmTable& table : model.tables)
    if (table.dtype == wanted) return table.best_share;
  return 1.0;
}

}  // namespace

// The axes of the correction table: rows per expert, experts, and weights of one expert in units of
// 1024.
std::array<std::int64_t, 3> grouped_coordinates(const GroupedGemm& gemm) {
  const auto experts = static_cast<std::int64_t>(gemm.rows.size());
  constexpr std::int64_t kWeights = 1024;
  return {std::max<std::int64_t>(1, total_rows(gemm) / std::max<std::int64_t>(1, experts)),
          std::max<std::int64_t>(1, experts),
          std::max<std::int64_t>(1, gemm.n * gemm.k / kWeights)};
}

// The time with the fastest tile: compute in waves over the SMs, or HBM traffic where that is
// longer.
Seconds tile_model_time(const GpuSheet& sheet, const TileModel& model, const GroupedGemm& gemm,
                        double slowdown) {
  TY_CHECK(total_rows(gemm) > 0 && gemm.n > 0 && gemm.k > 0, total_rows(gemm), gemm.n, gemm.k);
  const auto sms = static_cast<double>(sheet.sms);
  const BytesPerSecond bandwidth{sheet.hbm.value() * model.bandwidth_efficiency};
  const Seconds traffic = hbm_bytes(gemm) / bandwidth;
  Seconds best{std::numeric_limits<double>::infinity()};
  for (const Tile& tile : tile_set(sheet.generation)) {
    const Work work = work_of(gemm, tile, sheet.sms);
    const Flops step{2.0 * static_cast<double>(tile.m * tile.n * tile.k)};
    const FlopsPerSecond rate{sheet.peak(gemm.dtype).value() / sms * tile_rate(model, tile)};
    const Seconds compute = (step / rate) * wave_steps(gemm, work, sms) + model.prologue;
    best = std::min(best, std::max(compute * slowdown, traffic));
  }
  return best + model.launch;
}

Gemm gemm_of_expert(const GroupedGemm& gemm, std::int64_t rows) {
  const bool weight = gemm.pass == GemmPass::WeightGrad;
  return {.m = weight ? gemm.n : rows,
          .n = weight ? gemm.k : gemm.n,
          .k = weight ? rows : gemm.k,
          .batch = 1,
          .dtype = gemm.dtype,
          .pass = gemm.pass,
          .accumulate_fp32 = gemm.accumulate_fp32};
}

namespace {

// The cost is reused for experts with the same number of rows as the one before.
Cost cost_per_expert(const GpuSheet& sheet, const GemmModel& gemm_model, const GroupedModel& model,
                     const GroupedGemm& gemm) {
  Cost all{Seconds{0.0}, Provenance::Measured};
  Cost one{};
  std::int64_t priced = 0;
  for (const std::int64_t rows : gemm.rows) {
    if (rows == 0) continue;
    if (rows != priced) one = gemm_cost(sheet, gemm_model, gemm_of_expert(gemm, rows));
    priced = rows;
    // The host issues one kernel per expert, so each takes at least the time between two launches.
    all.time += std::max(one.time, model.issue);
    all.provenance = std::max(all.provenance, one.provenance);
  }
  return all;
}

Cost cost_in_one_launch(const GpuSheet& sheet, const GemmModel& gemm_model,
                        const GroupedModel& model, const GroupedGemm& gemm) {
  const auto place = grouped_coordinates(gemm);
  double factor = pass_factor(gemm_model.pass, gemm.pass);
  bool inside = false;
  if (const GroupedTable* table = find_table(model, gemm.dtype)) {
    const auto reading = table->log_factor.at(place);
    factor *= std::exp(reading.value);
    inside = reading.inside && gemm.pass == GemmPass::Forward;
  }
  GroupedGemm alone = gemm;
  alone.accumulate_fp32 = false;
  const double slowdown = gemm_model.sustained_time;
  const FlopsPerSecond reached{sheet.peak(gemm.dtype).value() * best_share(gemm_model, gemm.dtype) /
                               slowdown};
  // The correction must not make the group faster than the best single GEMM would be.
  const Seconds time = std::max(tile_model_time(sheet, gemm_model.tile, alone, slowdown) * factor,
                                roofline(flops(gemm), hbm_bytes(alone), reached, sheet.hbm)) +
                       accumulation_time(sheet, gemm_model, hbm_bytes(gemm) - hbm_bytes(alone));
  return {time, inside ? Provenance::Interpolated : Provenance::Extrapolated};
}

}  // namespace

Cost grouped_cost(const GpuSheet& sheet, const GemmModel& gemm_model, const GroupedModel& model,
                  const GroupedGemm& gemm) {
  if (total_rows(gemm) == 0) return {gemm_model.tile.launch, Provenance::Extrapolated};
  return gemm.per_expert ? cost_per_expert(sheet, gemm_model, model, gemm)
                         : cost_in_one_launch(sheet, gemm_model, model, gemm);
}

}  // namespace trainyard
