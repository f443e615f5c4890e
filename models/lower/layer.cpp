#include "models/lower/layer.hpp"

#include <utility>

#include "models/frozen.hpp"

namespace trainyard {

namespace {

// What stands before a layer differs in few ways: after a receive, after another layer.
constexpr std::size_t kMostWays = 4;

}  // namespace

const LayerBlockKind& LayerLowering::block(LayerHalf half) const {
  return layer_block_at(tools_.plan.architecture, half, tools_.build.tags().layer);
}

void LayerLowering::write_forward(const LayerParts& parts) {
  if (parts.attention_norm) tools_.elementwise.norm_forward("attention_norm");
  if (parts.attention) block(LayerHalf::Attention).forward(tools_);
  if (parts.ffn_norm) tools_.elementwise.norm_forward("ffn_norm");
  if (parts.ffn) block(LayerHalf::FeedForward).forward(tools_);
}

// The gradient of a norm was final with the input gradients: those are all done before any weight
// part.
std::vector<ReadyGradient> LayerLowering::write_backward(BackwardPart part,
                                                         const LayerParts& parts) {
  Elementwise& elementwise = tools_.elementwise;
  std::vector<ReadyGradient> ready;
  if (parts.ffn) ready = block(LayerHalf::FeedForward).backward(tools_, part);
  if (parts.ffn_norm)
    ready.push_back(elementwise.norm_back("ffn_norm_backward", {part, parts.ffn}));
  if (parts.attention) {
    const auto own = block(LayerHalf::Attention).backward(tools_, part);
    ready.insert(ready.end(), own.begin(), own.end());
  }
  if (parts.attention_norm)
    ready.push_back(elementwise.norm_back("attention_norm_backward", {part, parts.attention}));
  return ready;
}

std::optional<LayerLowering::LayerKey> LayerLowering::key_of(const LayerParts& parts) const {
  if (!parts.whole()) return std::nullopt;
  const LayerBlockKind& attention = block(LayerHalf::Attention);
  const LayerBlockKind& feed_forward = block(LayerHalf::FeedForward);
  const auto first = attention.variant(tools_);
  const auto second = feed_forward.variant(tools_);
  if (!first || !second) return std::nullopt;
  const Tags& tags = tools_.build.tags();
  return LayerKey{.trained = trains_layer(tools_.plan, tags.layer),
                  .attention = attention.name,
                  .feed_forward = feed_forward.name,
                  .attention_variant = *first,
                  .feed_forward_variant = *second,
                  .part = tags.part};
}

std::optional<std::vector<ReadyGradient>> LayerLowering::repeated(
    const std::vector<WrittenLayer>& written) {
  for (const WrittenLayer& known : written) {
    const OpIndex first = tools_.build.next();
    if (!tools_.build.repeat(known.layer)) continue;
    std::vector<ReadyGradient> ready = known.ready;
    for (ReadyGradient& gradient : ready)
      if (gradient.op != kNone) gradient.op += first;
    return ready;
  }
  return std::nullopt;
}

template <typename Write>
std::vector<ReadyGradient> LayerLowering::write_or_repeat(const LayerKey& key, const Write& write) {
  std::vector<WrittenLayer>& written = written_[key];
  if (auto ready = repeated(written)) return *std::move(ready);
  WrittenLayer fresh{.layer = tools_.build.begin_layer(), .ready = {}};
  std::vector<ReadyGradient> ready = write();
  tools_.build.end_layer(fresh.layer);
  for (ReadyGradient gradient : ready) {
    if (gradient.op < fresh.layer.begin.next) return ready;  // final before the layer
    if (gradient.op != kNone) gradient.op -= fresh.layer.begin.next;
    fresh.ready.push_back(gradient);
  }
  if (written.size() == kMostWays) written.erase(written.begin());
  written.push_back(std::move(fresh));
  return ready;
}

void LayerLowering::forward(const LayerParts& parts) {
  const auto key = key_of(parts);
  if (!key) return write_forward(parts);
  (void)write_or_repeat(*key, [&] {
    write_forward(parts);
    return std::vector<ReadyGradient>{};
  });
}

std::vector<ReadyGradient> LayerLowering::backward(BackwardPart part, const LayerParts& parts) {
  auto key = key_of(parts);
  if (!key) return write_backward(part, parts);
  key->backward = true;
  key->backward_part = part;
  return write_or_repeat(*key, [&] { return write_backward(part, parts); });
}

}  // namespace trainyard
