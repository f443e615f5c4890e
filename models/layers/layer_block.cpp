#include "models/layers/layer_block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/base/check.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

std::span<const LayerBlock> layer_blocks() {
  static const std::array blocks{latent_attention_block(), multi_head_attention_block(),
                                 experts_block(), feed_forward_block()};
  return blocks;
}

namespace {

std::uint8_t block_at(const Architecture& architecture, LayerHalf half, std::int64_t layer) {
  const std::span<const LayerBlock> blocks = layer_blocks();
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i].half == half && blocks[i].is_at(architecture, layer))
      return static_cast<std::uint8_t>(i);
  TY_CHECK(false, layer);
  return 0;
}

}  // namespace

LayerKind layer_kind(const Architecture& architecture, std::int64_t layer) {
  return {.attention = block_at(architecture, LayerHalf::Attention, layer),
          .ffn = block_at(architecture, LayerHalf::FeedForward, layer)};
}

const LayerBlock& block_of(LayerKind kind, LayerHalf half) {
  return layer_blocks()[half == LayerHalf::Attention ? kind.attention : kind.ffn];
}

bool routes_tokens(LayerKind kind) { return block_of(kind, LayerHalf::FeedForward).routes_tokens; }

void count_kind(std::vector<CountedKind>& counted, LayerKind kind) {
  auto known = std::ranges::find(counted, kind, &CountedKind::kind);
  if (known == counted.end()) known = counted.insert(known, {.kind = kind});
  ++known->layers;
}

std::vector<CountedKind> layer_kinds(const Architecture& architecture, std::int64_t mtp_layers) {
  std::vector<CountedKind> kinds;
  for (std::int64_t layer = 0; layer < architecture.layers + mtp_layers; ++layer)
    count_kind(kinds, layer_kind(architecture, layer));
  return kinds;
}

std::int64_t layers_with_experts(const Architecture& architecture) {
  std::int64_t sum = 0;
  for (const auto& [kind, layers] : layer_kinds(architecture))
    if (routes_tokens(kind)) sum += layers;
  return sum;
}

// A value of zero means that the model lacks the part.
void report_orphans(JsonObject& object,
                    const std::vector<std::pair<std::string_view, std::int64_t>>& fields,
                    std::string_view of_what) {
  for (const auto& [field, value] : fields)
    if (value > 0)
      object.report(field, fmt::format("{} belongs to {}", value, of_what), "or leave it out");
}

}  // namespace trainyard
