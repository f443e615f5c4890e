// Layers written once and copied for all layers and microbatches that are alike.
#include <utility>

#include "models/expert_routing.hpp"
#include "models/frozen.hpp"
#include "models/lower/layer.hpp"

namespace trainyard {

namespace {

// What stands before a layer differs in few ways: after a receive, after another layer.
constexpr std::size_t kMostWays = 4;

}  // namespace

// Experts may get other rows in every microbatch, and documents other lengths.
bool LayerLowering::repeats(const LayerParts& parts) const {
  if (has_experts() && shape_.routing->by_microbatch()) return false;
  return parts.whole() && plan_.documents.kind == DocumentKind::None;
}

bool LayerLowering::repeated(const std::vector<WrittenLayer>& written,
                             std::vector<ReadyGradient>* ready) {
  for (const WrittenLayer& known : written) {
    const OpIndex first = build_.next();
    if (!build_.repeat(known.layer)) continue;
    for (ReadyGradient gradient : known.ready) {
      if (gradient.op != kNone) gradient.op += first;
      ready->push_back(gradient);
    }
    return true;
  }
  return false;
}

template <typename Write>
void LayerLowering::write_or_repeat(const BlockKey& key, std::vector<ReadyGradient>* ready,
                                    const Write& write) {
  std::vector<WrittenLayer>& written = written_[key];
  if (repeated(written, ready)) return;
  const std::size_t known = ready == nullptr ? 0 : ready->size();
  WrittenLayer fresh{.layer = build_.begin_layer(), .ready = {}};
  write();
  build_.end_layer(fresh.layer);
  if (ready != nullptr) {
    for (std::size_t i = known; i < ready->size(); ++i) {
      ReadyGradient gradient = (*ready)[i];
      if (gradient.op < fresh.layer.begin.next) return;  // final before the layer
      if (gradient.op != kNone) gradient.op -= fresh.layer.begin.next;
      fresh.ready.push_back(gradient);
    }
  }
  if (written.size() == kMostWays) written.erase(written.begin());
  written.push_back(std::move(fresh));
}

LayerLowering::BlockKey LayerLowering::forward_key() const {
  const Tags& tags = build_.tags();
  BlockKey key{.trained = trains_layer(plan_, tags.layer),
               .windowed = arch_.windowed(tags.layer),
               .experts = has_experts(),
               .part = tags.part};
  if (key.experts) key.rows = shape_.routing->key_of({.layer = tags.layer});
  return key;
}

void LayerLowering::forward(const LayerParts& parts) {
  if (!repeats(parts)) return write_forward(parts);
  write_or_repeat(forward_key(), nullptr, [&] { write_forward(parts); });
}

void LayerLowering::backward(BackwardPart part, std::vector<ReadyGradient>* ready,
                             const LayerParts& parts) {
  if (!repeats(parts)) return write_backward(part, ready, parts);
  BlockKey key = forward_key();
  key.backward = true;
  key.backward_part = part;
  key.gradients = ready != nullptr;
  write_or_repeat(key, ready, [&] { write_backward(part, ready, parts); });
}

}  // namespace trainyard
