// Tile and wave quantisation (oracle 61).
#include "kernels/tiles.hpp"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

TEST(Tiles, A100SquareThatJustFitsOneWave) {
  const TileCount c = count_tiles({.m = 1792, .n = 1792}, {.m = 256, .n = 128}, 108);
  EXPECT_EQ(c.tiles, 98);
  EXPECT_EQ(c.waves, 1);
  EXPECT_NEAR(c.wave_efficiency, 98.0 / 108.0, 1e-12);
  EXPECT_NEAR(c.wave_efficiency, 0.907407, 5e-7);
  EXPECT_DOUBLE_EQ(c.tile_efficiency, 1.0);
}

TEST(Tiles, OneRowMoreCostsAWholeSecondWave) {
  const TileCount c = count_tiles({.m = 1793, .n = 1793}, {.m = 256, .n = 128}, 108);
  EXPECT_EQ(c.tiles, 120);
  EXPECT_EQ(c.waves, 2);
  EXPECT_NEAR(c.wave_efficiency, 120.0 / 216.0, 1e-12);
  EXPECT_NEAR(c.wave_efficiency, 0.555556, 5e-7);
  EXPECT_NEAR(c.tile_efficiency, 1793.0 * 1793.0 / (2048.0 * 1920.0), 1e-12);
  EXPECT_NEAR(c.tile_efficiency, 0.8176, 5e-5);
}

TEST(Tiles, PartlyFilledTilesStillCount) {
  const TileCount c = count_tiles({.m = 1920, .n = 1920}, {.m = 256, .n = 128}, 108);
  EXPECT_EQ(c.tiles, 120);
  EXPECT_NEAR(c.tile_efficiency, 0.9375, 1e-12);
}

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

TEST(Tiles, BatchesAddTiles) {
  EXPECT_EQ(count_tiles({.m = 256, .n = 256, .batch = 7}, {.m = 128, .n = 128}, 108).tiles, 28);
}

TEST(Tiles, EveryGenerationHasTilesLargestFirst) {
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
