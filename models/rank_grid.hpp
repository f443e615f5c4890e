// Where a rank sits in the parallel grid: among all, and among the experts.
//
// Megatron's order string names the dimensions from fastest to slowest: with "tp-cp-ep-dp-pp"
//   rank = tp + t*(cp + c*(dp + d*pp))           (reference: Megatron-LM parallel_state.py,
//   RankGenerator)
// e.g. t=8, c=1, d=2, p=4: rank 12 is tp 4, dp 1, pp 0. "ep" takes no room of its own in the dense
// grid.
//
// The experts' division is folded over the dense one (RankGenerator again): the same order string
// with tp as expert_tensor, cp as 1, ep as expert and dp as the experts' replicas:
//   rank = et + etp*(e + ep*(r + replicas*pp))
// e.g. 16 ranks, expert 8, expert_tensor 1, pipeline 1: rank 11 has the experts of place 3, replica
// 1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "models/plan.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// An order of four dimensions over ranks.
//
//   RankOrder order("tp-dp-pp", {"tp", "cp", "dp", "pp"}, {2, 1, 4, 2});
//   order.place(5)             // {1, 0, 2, 0}: 5 = 1 + 2 * (2 + 4 * 0)
//   order.rank({1, 0, 2, 0})   // 5
class RankOrder {
 public:
  static constexpr std::size_t kDimensions = 4;
  using Place = std::array<std::int64_t, kDimensions>;

  // `order` lists dimensions by name, joined by dashes, the one that varies fastest first; words
  // that name none are passed over. REQUIRES: sizes > 0; a dimension that is not listed has size 1.
  RankOrder(const std::string& order, const std::array<std::string_view, kDimensions>& names,
            const Place& size);

  [[nodiscard]] std::int64_t world() const { return world_; }  // ranks
  [[nodiscard]] Place place(RankId rank) const;
  [[nodiscard]] RankId rank(const Place& place) const;

 private:
  Place size_{};
  Place stride_{};
  std::int64_t world_ = 1;
};

struct GridPosition {
  std::int64_t tensor = 0;
  std::int64_t context = 0;
  std::int64_t data = 0;
  std::int64_t pipeline = 0;
};

class RankGrid {
 public:
  // REQUIRES: rank_order names tp, cp, dp and pp once each (the scenario reader checks it).
  explicit RankGrid(const Parallelism& parallelism);

  [[nodiscard]] std::int64_t world() const { return order_.world(); }
  [[nodiscard]] GridPosition position(RankId rank) const;
  [[nodiscard]] RankId rank(const GridPosition& position) const;

 private:
  RankOrder order_;  // tensor, context, data, pipeline
};

struct ExpertPosition {
  std::int64_t tensor = 0;
  std::int64_t expert = 0;
  std::int64_t replica = 0;
  std::int64_t pipeline = 0;
};

class ExpertGrid {
 public:
  // REQUIRES: expert * expert_tensor divides the ranks of a stage; rank_order as for RankGrid.
  explicit ExpertGrid(const Parallelism& parallelism);

  [[nodiscard]] ExpertPosition position(RankId rank) const;
  [[nodiscard]] RankId rank(const ExpertPosition& position) const;
  // Every rank is on the same pipeline stage in both grids; an order that puts pp between the other
  // dimensions may tear them apart.
  [[nodiscard]] static bool keeps_stages(const Parallelism& parallelism);

 private:
  RankOrder order_;  // tensor, expert, replica, pipeline
};

}  // namespace trainyard
