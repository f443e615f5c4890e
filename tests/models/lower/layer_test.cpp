// The registry of layer blocks: it covers every layer of every model family, and kinds are chosen
// only through it.
#include "models/layers/layer.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace trainyard {
namespace {

std::string at(const Architecture& architecture, LayerHalf half, std::int64_t layer) {
  return std::string(block_of(layer_kind(architecture, layer), half).name);
}

// Does every kind have a unique name and all its functions?
TEST(LayerBlock, KindsHaveNamesOfTheirOwnAndAllTheirParts) {
  std::set<std::string_view> names;
  for (const LayerBlock& kind : layer_blocks()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    EXPECT_TRUE(kind.is_at && kind.forward && kind.backward) << kind.name;
    EXPECT_TRUE(kind.weights && kind.kept && kind.gradients) << kind.name;
    EXPECT_FALSE(kind.operator_word.empty()) << kind.name;
  }
  EXPECT_EQ(names.size(), 4U);
}

// Does a dense model have attention with heads and no experts?
TEST(LayerBlock, ADenseModelAttendsWithHeadsAndHasNoExperts) {
  const Architecture dense{};
  EXPECT_EQ(at(dense, LayerHalf::Attention, 0), "attention");
  EXPECT_EQ(at(dense, LayerHalf::FeedForward, 0), "feed-forward");
}

// Are second GEMMs known only for dense layers with ordinary attention? The scenario reader
// requires the same of second_gemms (/training/recompute_modules).
TEST(LayerBlock, WhichProductIsEverySecondOneIsKnownOfDenseLayersWithOrdinaryAttention) {
  std::set<std::string_view> known;
  for (const LayerBlock& kind : layer_blocks())
    if (kind.second_gemms) known.insert(kind.name);
  EXPECT_EQ(known, (std::set<std::string_view>{"attention", "feed-forward"}));
}

// Can the layers of one model have different kinds? As in DeepSeek-V3: latent attention everywhere,
// and experts after the first three layers.
TEST(LayerBlock, TheLayersOfOneModelDifferInTheirKinds) {
  Architecture mixture;
  mixture.kv_latent = 512;
  mixture.experts = 256;
  mixture.dense_layers = 3;
  for (std::int64_t layer = 0; layer < 8; ++layer) {
    EXPECT_EQ(at(mixture, LayerHalf::Attention, layer), "latent attention") << layer;
    EXPECT_EQ(at(mixture, LayerHalf::FeedForward, layer), layer < 3 ? "feed-forward" : "experts")
        << layer;
  }
}

}  // namespace
}  // namespace trainyard
