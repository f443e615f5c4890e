// The operations of one rank class as coloured bars on its streams, for drawing.
//
//    const auto lanes = chosen_lanes(view, 16);          // one rank class for each stage
//    std::vector<Bar> blocks = bars_of(view, lanes.front(), Detail::Microbatch);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/report/run_view.hpp"

namespace trainyard {

// The property that determines the colour of a bar: the part of the step that it computes, or the
// kind of its group.
enum class BlockKind : std::uint8_t {
  Forward,
  Backward,
  Recompute,
  WeightGrad,
  Optimizer,
  OtherCompute,
  Tensor,
  Pipeline,
  Data,
  Expert,
  Context,
  OtherGroup,
  Host
};
inline constexpr std::size_t kBlockKinds = 13;

struct BlockStyle {
  std::string_view name;    // "tensor-parallel communication"
  std::string_view colour;  // "#0072B2"
};
[[nodiscard]] const std::array<BlockStyle, kBlockKinds>& block_styles();

// One bar: an operation, or consecutive operations joined.
struct Bar {
  BlockKind kind = BlockKind::Forward;
  std::uint8_t stream = 0;
  std::int32_t microbatch = -1;
  std::int32_t layer = -1;  // -1: none, or several in one bar
  std::uint16_t name = 0;   // index into Workload::names; of the first operation
  std::uint32_t operations = 1;
  double start_s = 0.0;
  double end_s = 0.0;
};

// Operation: one bar per operation. Microbatch: consecutive bars of one stream, kind and microbatch
// are joined across gaps of up to a thousandth of the step.
enum class Detail : std::uint8_t { Operation, Microbatch };

// Returns the bars sorted by stream, then by start; those of one stream where it is given.
// Operations of length zero are left out.
[[nodiscard]] std::vector<Bar> bars_of(const RunView& view, std::uint32_t rank_class, Detail detail,
                                       std::optional<std::uint8_t> stream = {});

// Returns the first rank class of each pipeline stage, by stage. With more stages than `most` it
// returns `most` stages at even distances, including the first and the last.
[[nodiscard]] std::vector<std::uint32_t> chosen_lanes(const RunView& view, std::size_t most);

}  // namespace trainyard
