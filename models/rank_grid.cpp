#include "models/rank_grid.hpp"

#include <algorithm>
#include <sstream>

#include "sim/base/check.hpp"

namespace trainyard {

RankOrder::RankOrder(const std::string& order,
                     const std::array<std::string_view, kDimensions>& names, const Place& size)
    : size_(size) {
  std::istringstream words(order);
  for (std::string word; std::getline(words, word, '-');) {
    const auto found = std::find(names.begin(), names.end(), word);
    if (found == names.end()) continue;
    const auto dimension = static_cast<std::size_t>(found - names.begin());
    stride_[dimension] = world_;
    world_ *= size_[dimension];
  }
}

RankOrder::Place RankOrder::place(RankId rank) const {
  Place place{};
  for (std::size_t i = 0; i < kDimensions; ++i)
    if (stride_[i] > 0 && size_[i] > 1)
      place[i] = rank / static_cast<RankId>(stride_[i]) % static_cast<RankId>(size_[i]);
  return place;
}

RankId RankOrder::rank(const Place& place) const {
  std::int64_t rank = 0;
  for (std::size_t i = 0; i < kDimensions; ++i) rank += place[i] * stride_[i];
  return static_cast<RankId>(rank);
}

RankGrid::RankGrid(const Parallelism& parallelism)
    : order_(parallelism.rank_order, {"tp", "cp", "dp", "pp"},
             {parallelism.tensor, parallelism.context, parallelism.data, parallelism.pipeline}) {
  TY_CHECK(
      world() == parallelism.tensor * parallelism.context * parallelism.data * parallelism.pipeline,
      parallelism.rank_order);
}

GridPosition RankGrid::position(RankId rank) const {
  const auto [tensor, context, data, pipeline] = order_.place(rank);
  return {.tensor = tensor, .context = context, .data = data, .pipeline = pipeline};
}

RankId RankGrid::rank(const GridPosition& position) const {
  return order_.rank({position.tensor, position.context, position.data, position.pipeline});
}

ExpertGrid::ExpertGrid(const Parallelism& p)
    : order_(p.rank_order, {"tp", "ep", "dp", "pp"},
             {p.expert_tensor_size(), p.expert, p.expert_replicas(), p.pipeline}) {}

ExpertPosition ExpertGrid::position(RankId rank) const {
  const auto [tensor, expert, replica, pipeline] = order_.place(rank);
  return {.tensor = tensor, .expert = expert, .replica = replica, .pipeline = pipeline};
}

RankId ExpertGrid::rank(const ExpertPosition& at) const {
  return order_.rank({at.tensor, at.expert, at.replica, at.pipeline});
}

bool ExpertGrid::keeps_stages(const Parallelism& parallelism) {
  const RankGrid dense(parallelism);
  const ExpertGrid experts(parallelism);
  for (RankId rank = 0; rank < static_cast<RankId>(dense.world()); ++rank)
    if (dense.position(rank).pipeline != experts.position(rank).pipeline) return false;
  return true;
}

}  // namespace trainyard
