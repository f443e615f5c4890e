#include "sim/render/page/blocks.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace trainyard {

namespace {

BlockKind kind_of(const Operation& op) {
  if (op.work == WorkClass::Optimizer) return BlockKind::Optimizer;
  switch (op.part) {
    case StepPart::Forward:
      return BlockKind::Forward;
    case StepPart::Backward:
      return BlockKind::Backward;
    case StepPart::Recompute:
      return BlockKind::Recompute;
    case StepPart::WeightGrad:
      return BlockKind::WeightGrad;
    case StepPart::Optimizer:
      return BlockKind::Optimizer;
    case StepPart::GradSync:
    case StepPart::ParamSync:
    case StepPart::Other:
      return BlockKind::OtherCompute;
  }
  return BlockKind::OtherCompute;
}

BlockKind kind_of(GroupKind group) {
  switch (group) {
    case GroupKind::Tensor:
      return BlockKind::Tensor;
    case GroupKind::Pipeline:
      return BlockKind::Pipeline;
    case GroupKind::Data:
      return BlockKind::Data;
    case GroupKind::Expert:
      return BlockKind::Expert;
    case GroupKind::Context:
      return BlockKind::Context;
    case GroupKind::Host:
      return BlockKind::Host;
    case GroupKind::Other:
      return BlockKind::OtherGroup;
  }
  return BlockKind::OtherGroup;
}

BlockKind kind_of(const RunView& view, const Rank& rank, const Operation& op) {
  if (op.kind == OpKind::Compute) return kind_of(op);
  if (op.kind == OpKind::Delay) return BlockKind::Host;
  return kind_of(view.workload.groups.at(rank.slots.at(op.slot).group).kind);
}

// The bars of a rank class. Blocks arrive in the order of the program; those of one stream run in
// that order.
class Bars {
 public:
  // Blocks of one stream, kind and microbatch whose gap is at most `gap_s` become one bar; without
  // a gap, every block is a bar.
  explicit Bars(std::optional<double> gap_s) : gap_s_(gap_s) { last_on_stream_.fill(kNone); }

  void add(const Bar& block) {
    std::uint32_t& number = last_on_stream_[block.stream];
    if (number != kNone && joins(bars_[number], block)) {
      Bar& last = bars_[number];
      last.end_s = std::max(last.end_s, block.end_s);
      last.operations += block.operations;
      if (last.layer != block.layer) last.layer = -1;
      return;
    }
    number = static_cast<std::uint32_t>(bars_.size());
    bars_.push_back(block);
  }

  // The bars by stream, then by start.
  [[nodiscard]] std::vector<Bar> take() {
    const auto earlier = [](const Bar& a, const Bar& b) {
      return a.stream != b.stream ? a.stream < b.stream : a.start_s < b.start_s;
    };
    if (!std::ranges::is_sorted(bars_, earlier)) std::ranges::stable_sort(bars_, earlier);
    return std::move(bars_);
  }

 private:
  [[nodiscard]] bool joins(const Bar& before, const Bar& block) const {
    return gap_s_ && before.kind == block.kind && before.microbatch == block.microbatch &&
           block.start_s - before.end_s <= *gap_s_;
  }

  std::optional<double> gap_s_;
  std::vector<Bar> bars_;
  // By stream: the number of its last bar; kNone.
  std::array<std::uint32_t, std::numeric_limits<std::uint8_t>::max() + 1> last_on_stream_{};
};

}  // namespace

const std::array<BlockStyle, kBlockKinds>& block_styles() {
  // Colours after Okabe and Ito (Color Universal Design, 2008); the second kind of a pair has a
  // darker or lighter variant.
  static constexpr std::array<BlockStyle, kBlockKinds> kStyles{{
      {"forward", "#56B4E9"},
      {"backward", "#0072B2"},
      {"recompute", "#9FD3F2"},
      {"weight gradient", "#003F63"},
      {"optimizer", "#CC79A7"},
      {"other compute", "#8A8A8A"},
      {"tensor-parallel communication", "#E69F00"},
      {"pipeline communication", "#009E73"},
      {"data-parallel communication", "#D55E00"},
      {"expert communication", "#7A3E9D"},
      {"context communication", "#8B6D00"},
      {"other communication", "#5F5F5F"},
      {"host", "#C9C9C9"},
  }};
  return kStyles;
}

std::vector<Bar> bars_of(const RunView& view, std::uint32_t rank_class, Detail detail,
                         std::optional<std::uint8_t> stream) {
  const RankClass& ranks = view.partition.ranks.at(rank_class);
  const Rank& rank = view.workload.ranks.at(ranks.representative);
  const Program& program = view.workload.programs.at(ranks.program);
  const OpTimes& times = view.timeline.classes.at(rank_class);
  const bool joined = detail == Detail::Microbatch;
  Bars bars(joined ? std::optional(1e-3 * view.timeline.makespan_s) : std::nullopt);
  OpIndex next = 0;
  for (const Operation& op : program.operations) {
    const OpIndex index = next++;
    if (times.end_s[index] <= times.start_s[index] || (stream && op.stream != *stream)) continue;
    bars.add({.kind = kind_of(view, rank, op),
              .stream = op.stream,
              .microbatch = op.microbatch,
              .layer = op.layer,
              .name = op.name,
              .operations = 1,
              .start_s = times.start_s[index],
              .end_s = times.end_s[index]});
  }
  return bars.take();
}

std::vector<std::uint32_t> chosen_lanes(const RunView& view, std::size_t most) {
  std::map<std::uint32_t, std::uint32_t> first;  // lowest rank class, by stage
  for (std::uint32_t one = 0; one < view.partition.ranks.size(); ++one)
    first.try_emplace(view.workload.programs.at(view.partition.ranks[one].program).stage, one);
  std::vector<std::uint32_t> all;
  for (const auto& [stage, rank_class] : first) all.push_back(rank_class);
  if (all.size() <= most || most < 2) return all;
  std::vector<std::uint32_t> chosen;
  for (std::size_t i = 0; i < most; ++i) chosen.push_back(all[i * (all.size() - 1) / (most - 1)]);
  return chosen;
}

}  // namespace trainyard
