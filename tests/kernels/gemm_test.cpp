// Properties of GEMM costs: bounds, monotonicity, provenance.
#include "kernels/gemm.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "kernels/gpu.hpp"
#include "kernels/profile.hpp"
#include "kernels/roofline.hpp"

namespace trainyard {
namespace {

constexpr std::array measured_gpus = {"a100_80gb", "h100", "b200"};

Gemm random_gemm(std::mt19937_64& generator, std::int64_t most) {
  const auto extent = [&] {
    return static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(most)) + 1;
  };
  return {.m = extent(), .n = extent(), .k = extent()};
}

Seconds bound(const GpuSheet& sheet, const Kernel& kernel, DataType dtype) {
  return roofline(flops(kernel), hbm_bytes(kernel), sheet.peak(dtype), sheet.hbm);
}

// Is the time of a GEMM never below the roofline?
TEST(Gemm, NeverBeatsTheRoofline) {
  std::mt19937_64 generator(1);
  for (const char* name : measured_gpus) {
    const GpuSheet sheet = load_gpu_sheet(name);
    for (const Clock clock : {Clock::Burst, Clock::Sustained}) {
      const auto model = load_cost_model(name, clock);
      for (int i = 0; i < 400; ++i) {
        Gemm gemm = random_gemm(generator, 20000);
        gemm.batch = i % 5 == 0 ? 32 : 1;
        gemm.pass = static_cast<GemmPass>(i % 3);
        gemm.accumulate_fp32 = gemm.pass == GemmPass::WeightGrad;
        EXPECT_GE(model->cost(gemm).time, bound(sheet, gemm, gemm.dtype)) << to_text(gemm);
      }
    }
  }
}

// Does the time of the tile model grow with every dimension?
TEST(Gemm, TheTileModelIsMonotoneInEveryDimension) {
  const GpuSheet sheet = load_gpu_sheet("h100");
  const TileModel model;
  std::mt19937_64 generator(2);
  for (int i = 0; i < 300; ++i) {
    const Gemm gemm = random_gemm(generator, 9000);
    const Seconds time = tile_model_time(sheet, model, gemm);
    for (const std::int64_t more : {1, 64, 1000}) {
      for (auto member : {&Gemm::m, &Gemm::n, &Gemm::k, &Gemm::batch}) {
        Gemm larger = gemm;
        larger.*member += more;
        EXPECT_GE(tile_model_time(sheet, model, larger), time) << to_text(larger);
      }
    }
  }
}

// Do fitted times grow over doublings? Measurements are not monotone to the last percent, because a
// library may select a worse kernel for a larger GEMM. Over a doubling of whole tiles the fitted
// time must not fall by more than the scatter of the measurements.
TEST(Gemm, FittedTimesGrowOverDoublings) {
  std::mt19937_64 generator(3);
  constexpr double scatter = 0.03;
  for (const char* name : measured_gpus) {
    const auto model = load_cost_model(name);
    for (int i = 0; i < 500; ++i) {
      Gemm gemm = random_gemm(generator, 64);
      for (auto member : {&Gemm::m, &Gemm::n, &Gemm::k}) gemm.*member *= 256;
      const Seconds time = model->cost(gemm).time;
      for (auto member : {&Gemm::m, &Gemm::n, &Gemm::k}) {
        Gemm larger = gemm;
        larger.*member *= 2;
        EXPECT_GE(model->cost(larger).time, time * (1.0 - scatter))
            << name << " " << to_text(gemm) << " to " << to_text(larger);
      }
    }
  }
}

// Does a node of the table return its measured value, with provenance "measured"?
TEST(Gemm, ANodeOfTheTableIsReturnedExactlyAndSaysMeasured) {
  const GpuProfile profile = load_profile("h100");
  const auto model = load_cost_model("h100", Clock::Burst);
  const GemmTable& table = profile.gemm.tables.front();
  const auto& axes = table.correction.axes();
  int measured = 0;
  for (std::size_t i = 0; i < axes[0].size(); ++i) {
    const std::array shape = {axes[0][i], axes[1][i], axes[2][i]};
    const Gemm gemm{.m = shape[0], .n = shape[1], .k = shape[2], .dtype = table.dtype};
    const Cost cost = model->cost(gemm);
    const bool known = table.measured[*table.correction.node(shape)];
    measured += known ? 1 : 0;
    EXPECT_EQ(cost.provenance, known ? Provenance::Measured : Provenance::Interpolated);
    // The table stores ten-thousandths of the roofline.
    const double share = bound(profile.sheet, gemm, gemm.dtype) / cost.time * 1e4;
    EXPECT_NEAR(share, std::round(share), 1e-6) << to_text(gemm);
  }
  EXPECT_GT(measured, 5);
}

// Does a cost report its provenance?
TEST(Gemm, SaysHowWellItKnows) {
  const auto model = load_cost_model("h100");
  const auto provenance = [&](const Gemm& gemm) { return model->cost(gemm).provenance; };
  EXPECT_EQ(provenance({.m = 5000, .n = 5000, .k = 5000}), Provenance::Interpolated);
  // The same node at the sustained clock was not measured.
  EXPECT_EQ(provenance({.m = 4096, .n = 4096, .k = 4096}), Provenance::Interpolated);
  EXPECT_EQ(provenance({.m = 5000, .n = 5000, .k = 100000}), Provenance::Extrapolated);
  EXPECT_EQ(provenance({.m = 5000, .n = 5000, .k = 64}), Provenance::Extrapolated);
  EXPECT_EQ(provenance({.m = 512, .n = 512, .k = 512, .batch = 8}), Provenance::Extrapolated);
  EXPECT_EQ(provenance({.m = 4096, .n = 4096, .k = 4096, .dtype = DataType::Tf32}),
            Provenance::Extrapolated);
}

// Does a batched GEMM cost about one tall GEMM plus its extra traffic?
TEST(Gemm, ABatchCostsLikeOneTallProductWithMoreTraffic) {
  const auto model = load_cost_model("a100_80gb");
  const Gemm batch{.m = 2048, .n = 2048, .k = 128, .batch = 12};
  const Gemm tall{.m = 2048 * 12, .n = 2048, .k = 128};
  EXPECT_GE(model->cost(batch).time, model->cost(tall).time * 0.999);
  EXPECT_LE(model->cost(batch).time, model->cost(tall).time * 1.5);
}

// Do grouped GEMMs of equal height cost about their share of one GEMM? Measured modules of experts
// reach 820 TFLOP/s on the H100, single GEMMs of that size 740: groups may be a tenth cheaper than
// one GEMM, and no more.
TEST(Gemm, GroupsOfEqualHeightCostAboutTheirShareOfOneProduct) {
  const auto model = load_cost_model("h100");
  const GroupedGemm grouped{.rows = std::vector<std::int64_t>(8, 1024), .n = 4096, .k = 4096};
  const Gemm whole{.m = 8192, .n = 4096, .k = 4096};
  EXPECT_GE(model->cost(grouped).time, model->cost(whole).time * 0.9);
  EXPECT_LE(model->cost(grouped).time, model->cost(whole).time * 1.5);
  // Unbalanced experts have a cost: the same rows in unequal groups fill more tiles.
  GroupedGemm ragged = grouped;
  ragged.rows = {1, 1, 1, 1, 1, 1, 1, 8185};
  EXPECT_GE(model->cost(ragged).time, model->cost(grouped).time * 0.999);
}

// Do grouped weight gradients count the tiles of the weights? They multiply over the rows of each
// expert.
TEST(Gemm, GroupedWeightGradientsCountTheirOwnTiles) {
  const GpuProfile profile = load_profile("h100");
  GroupedGemm forward{.rows = {512, 512, 512, 512}, .n = 4096, .k = 2048};
  GroupedGemm weight = forward;
  weight.pass = GemmPass::WeightGrad;
  const Seconds one = tile_model_time(profile.sheet, profile.gemm.tile, forward);
  const Seconds other = tile_model_time(profile.sheet, profile.gemm.tile, weight);
  EXPECT_GT(other / one, 0.7);
  EXPECT_LT(other / one, 1.4);
  // All rows at one expert: only the tiles of this expert remain, four times as deep.
  weight.rows = {2048, 0, 0, 0};
  EXPECT_NEAR(tile_model_time(profile.sheet, profile.gemm.tile, weight) / other, 1.0, 0.2);
  const auto model = load_cost_model("h100");
  EXPECT_GT(model->cost(GroupedGemm{.rows = {0, 0}, .n = 64, .k = 64}).time.value(), 0.0);
}

// Is the sustained clock slower than the burst clock, except for the launch?
TEST(Gemm, SustainedIsSlowerThanBurstExceptForTheLaunch) {
  for (const char* name : measured_gpus) {
    const double factor = load_profile(name).gemm.sustained_time;
    EXPECT_GE(factor, 1.0);
    const Gemm gemm{.m = 8192, .n = 8192, .k = 8192};
    const double ratio = load_cost_model(name)->cost(gemm).time /
                         load_cost_model(name, Clock::Burst)->cost(gemm).time;
    EXPECT_LE(ratio, factor + 1e-12);
    EXPECT_GT(ratio, 1.0 + 0.9 * (factor - 1.0));
  }
}

// Do memory-bound GEMMs keep their time at the sustained clock? A slower SM clock does not slow the
// memory.
TEST(Gemm, ProductsBoundByMemoryKeepTheirTime) {
  for (const char* name : measured_gpus) {
    const Gemm flat{.m = 1, .n = 8192, .k = 8192};
    const double stretch = load_cost_model(name)->cost(flat).time /
                           load_cost_model(name, Clock::Burst)->cost(flat).time;
    EXPECT_GE(stretch, 1.0) << name;
    EXPECT_LT(stretch, 1.01) << name;
  }
}

// Does accumulation in fp32 add the time of its extra traffic?
TEST(Gemm, AddingToFp32GradientsTakesItsFurtherTraffic) {
  for (const char* name : measured_gpus) {
    const GpuProfile profile = load_profile(name);
    Gemm gemm{.m = 4096, .n = 7168, .k = 4096, .pass = GemmPass::WeightGrad};
    const auto cost = [&] { return gemm_cost(profile.sheet, profile.gemm, gemm).time.value(); };
    const double alone = cost();
    gemm.accumulate_fp32 = true;  // 8 bytes per entry instead of 2 written
    EXPECT_NEAR(cost() - alone,
                6.0 * 4096 * 7168 / profile.sheet.hbm.value() * profile.gemm.accumulation_exposed,
                1e-12)
        << name;
    EXPECT_GT(profile.gemm.accumulation_exposed, 0.2);
    EXPECT_LT(profile.gemm.accumulation_exposed, 1.2);
  }
}

// Is the cost deterministic? It must not depend on the products whose cost was asked for before.
TEST(Gemm, IsDeterministic) {
  const Gemm gemm{.m = 3000, .n = 5000, .k = 7000};
  const auto model = load_cost_model("b200");
  const Seconds alone = model->cost(gemm).time;
  for (const std::int64_t m : {1, 1024, 8192}) {
    EXPECT_NE(model->cost(Gemm{.m = m, .n = 5000, .k = 7000}).time, alone) << m;
    EXPECT_EQ(model->cost(gemm).time, alone) << m;
  }
  EXPECT_EQ(load_cost_model("b200")->cost(gemm).time, alone);
}

// Tile and wave quantisation (oracle 61).

// Does a square GEMM on an A100 fill exactly one wave?
TEST(Tiles, A100SquareThatJustFitsOneWave) {
  const TileCount c = count_tiles({.m = 1792, .n = 1792}, {.m = 256, .n = 128}, 108);
  EXPECT_EQ(c.tiles, 98);
  EXPECT_EQ(c.waves, 1);
  EXPECT_NEAR(c.wave_efficiency, 98.0 / 108.0, 1e-12);
  EXPECT_NEAR(c.wave_efficiency, 0.907407, 5e-7);
  EXPECT_DOUBLE_EQ(c.tile_efficiency, 1.0);
}

// Does one more row cost a whole second wave?
TEST(Tiles, OneRowMoreCostsAWholeSecondWave) {
  const TileCount c = count_tiles({.m = 1793, .n = 1793}, {.m = 256, .n = 128}, 108);
  EXPECT_EQ(c.tiles, 120);
  EXPECT_EQ(c.waves, 2);
  EXPECT_NEAR(c.wave_efficiency, 120.0 / 216.0, 1e-12);
  EXPECT_NEAR(c.wave_efficiency, 0.555556, 5e-7);
  EXPECT_NEAR(c.tile_efficiency, 1793.0 * 1793.0 / (2048.0 * 1920.0), 1e-12);
  EXPECT_NEAR(c.tile_efficiency, 0.8176, 5e-5);
}

// Do partly filled tiles count as whole tiles?
TEST(Tiles, PartlyFilledTilesStillCount) {
  const TileCount c = count_tiles({.m = 1920, .n = 1920}, {.m = 256, .n = 128}, 108);
  EXPECT_EQ(c.tiles, 120);
  EXPECT_NEAR(c.tile_efficiency, 0.9375, 1e-12);
}

// Are the waves of an H100 counted correctly?
TEST(Tiles, H100Waves) {
  const TileCount square = count_tiles({.m = 4096, .n = 4096}, {.m = 128, .n = 256}, 132);
  EXPECT_EQ(square.tiles, 512);
  EXPECT_EQ(square.waves, 4);
  EXPECT_NEAR(square.wave_efficiency, 512.0 / 528.0, 1e-12);
  EXPECT_NEAR(square.wave_efficiency, 0.969697, 5e-7);
  const TileCount wide = count_tiles({.m = 8192, .n = 28672}, {.m = 128, .n = 256}, 132);
  EXPECT_EQ(wide.tiles, 7168);
  EXPECT_EQ(wide.waves, 55);
  EXPECT_NEAR(wide.wave_efficiency, 7168.0 / (55.0 * 132.0), 1e-12);
}

// Do batches add tiles?
TEST(Tiles, BatchesAddTiles) {
  EXPECT_EQ(count_tiles({.m = 256, .n = 256, .batch = 7}, {.m = 128, .n = 128}, 108).tiles, 28);
}

// Does every generation have tiles, sorted by size?
TEST(Tiles, EveryGenerationHasTilesLargestFirst) {
  EXPECT_FALSE(tile_generations().empty());
  for (const std::string& name : tile_generations()) {
    const auto tiles = tile_set(name);
    ASSERT_FALSE(tiles.empty()) << name;
    for (std::size_t i = 1; i < tiles.size(); ++i)
      EXPECT_GE(tiles[i - 1].m * tiles[i - 1].n, tiles[i].m * tiles[i].n) << name;
  }
  EXPECT_TRUE(tile_set("fermi").empty());
}

}  // namespace
}  // namespace trainyard
