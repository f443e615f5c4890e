// How a matrix product is cut into tiles, and how evenly these fill the SMs.
//
//   TileCount c = count_tiles({.m = 1793, .n = 1793}, {.m = 256, .n = 128}, 108);
//   c.tiles;             // 8 * 15 = 120
//   c.waves;             // 2: the second wave runs 12 tiles on 108 SMs
//   c.wave_efficiency;   // 120 / 216 = 0.555556
//
// A GPU computes a product tile by tile, one tile per SM at a time. Two kinds of waste follow: the
// last row and column of tiles hang over the edge (tile quantisation), and the last wave leaves SMs
// idle (wave quantisation). Source: NVIDIA DU-09799-001 "Matrix Multiplication Background",
// sections 4.1 and 4.2.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

// The block of the result one thread block computes, and the depth of one step of its main loop.
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

// The extent of the result matrix; `batch` counts equal products and split-K parts alike.
struct ResultShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t batch = 1;
};

[[nodiscard]] TileCount count_tiles(const ResultShape& result, const Tile& tile, std::int64_t sms);

// The tiles the libraries of a GPU generation choose from, largest first. The set belongs to the
// generation ("volta", "ampere", "ada", "hopper", "blackwell", "cdna3"); empty for an unknown one.
[[nodiscard]] std::span<const Tile> tile_set(std::string_view generation);

// The names tile_set knows.
[[nodiscard]] std::vector<std::string> tile_generations();

// "256x128".
[[nodiscard]] std::string to_text(const Tile& tile);

}  // namespace trainyard
