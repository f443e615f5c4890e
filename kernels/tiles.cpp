#include "kernels/tiles.hpp"

#include <fmt/format.h>

#include <array>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// cuBLAS on Ampere and Volta: DU-09799-001 section 4.1 lists the sizes.
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
    Generation{"volta", ampere_tiles},        Generation{"ampere", ampere_tiles},
    Generation{"ada", ampere_tiles},          Generation{"hopper", hopper_tiles},
    Generation{"blackwell", blackwell_tiles}, Generation{"cdna3", hopper_tiles}};

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

}  // namespace trainyard
