#include "models/lower/place_effects.hpp"

#include <algorithm>

#include "models/lower/program_passage.hpp"
#include "sim/base/check.hpp"

namespace trainyard {
namespace {

using Effect = std::pair<OpIndex, MemoryEffect>;

class EffectPlacing {
 public:
  EffectPlacing(std::span<const Effect> effects, std::span<const EffectRange> own,
                std::vector<Operation>& operations, std::vector<Passage>& passages)
      : effects_(effects), own_(own), operations_(operations), passages_(passages) {
    for (const EffectRange& range : own)
      texts_.push_back({.range = range,
                        .first = passages[range.passage].first,
                        .written = passages[range.passage].written});
  }

  std::vector<MemoryEffect> placed() {
    for_each_other([&](const Effect& effect) { write_out(passage_with(passages_, effect.first)); });
    for (const Text& text : texts_) {
      for (std::size_t i = text.range.begin; i < text.range.end; ++i)
        placed_.emplace_back(text.written + (effects_[i].first - text.first), effects_[i].second);
    }
    for_each_other([&](const Effect& effect) {
      const Passage& passage = passages_[passage_with(passages_, effect.first)];
      placed_.emplace_back(passage.written + (effect.first - passage.first), effect.second);
    });
    return in_order();
  }

 private:
  // Operations as they are written, with the effects that came with them.
  struct Text {
    EffectRange range;
    OpIndex first = 0;          // of the passage that was written
    std::uint32_t written = 0;  // where it is, or is written out
  };

  // Of those that did not come with a passage.
  template <class Visit>
  void for_each_other(const Visit& visit) const {
    std::size_t next = 0;
    for (const EffectRange& range : own_) {
      for (; next < range.begin; ++next) visit(effects_[next]);
      next = range.end;
    }
    for (; next < effects_.size(); ++next) visit(effects_[next]);
  }

  void write_out(std::size_t number) {
    Passage& passage = passages_[number];
    const auto text = std::ranges::find(texts_, passage.written, &Text::written);
    if (text == texts_.end() || text - texts_.begin() >= std::ssize(own_)) return;  // its own
    Text copy = *text;
    copy.written = static_cast<std::uint32_t>(operations_.size());
    texts_.push_back(copy);
    for (OpIndex i = 0; i < passage.count; ++i) {
      Operation op = operations_[passage.written + i];
      op.microbatch += passage.later;
      operations_.push_back(op);
    }
    const std::uint32_t before = std::exchange(passage.written, copy.written);
    passage.later = 0;
    passage.model = static_cast<std::uint32_t>(number);
    std::uint32_t model = kNone;  // of those that are left
    for (std::uint32_t other = 0; other < passages_.size(); ++other) {
      if (passages_[other].written != before) continue;
      if (model == kNone) model = other;
      passages_[other].model = model;
    }
  }

  std::vector<MemoryEffect> in_order() {
    std::ranges::stable_sort(placed_, {}, &Effect::first);
    std::vector<MemoryEffect> result;
    result.reserve(placed_.size());
    auto next = placed_.begin();
    for (OpIndex index = 0; index < operations_.size(); ++index) {
      Operation& op = operations_[index];
      op.effects_begin = static_cast<std::uint32_t>(result.size());
      for (; next != placed_.end() && next->first == index; ++next) result.push_back(next->second);
      op.effects_end = static_cast<std::uint32_t>(result.size());
    }
    TY_CHECK(next == placed_.end(), result.size(), placed_.size());
    return result;
  }

  std::span<const Effect> effects_;
  std::span<const EffectRange> own_;
  std::vector<Operation>& operations_;
  std::vector<Passage>& passages_;
  std::vector<Text> texts_;     // those of own_, then those written out
  std::vector<Effect> placed_;  // by operation as it is written
};

}  // namespace

std::vector<MemoryEffect> place_effects(std::span<const Effect> effects,
                                        std::span<const EffectRange> own,
                                        std::vector<Operation>& operations,
                                        std::vector<Passage>& passages) {
  return EffectPlacing(effects, own, operations, passages).placed();
}

}  // namespace trainyard
