#include "sim/fold/link_crossings.hpp"

#include <algorithm>
#include <numeric>

#include "sim/base/check.hpp"

namespace trainyard {

LinkCrossings::LinkCrossings(const JointGraph& joint)
    : begin_(joint.row_of.size() + 1, 0), crossings_(joint.shape_loads.size()) {
  TY_CHECK(joint.shape_loads.size() < kNone, joint.shape_loads.size());
  TY_CHECK(joint.loads.size() <= kNone >> 1U, joint.loads.size());
  for (const ShapeLoad& load : joint.shape_loads) ++begin_[load.link + std::size_t{1}];
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  std::vector<std::uint32_t> next(begin_.begin(), begin_.end() - 1);
  for (std::uint32_t shape = 0; shape < joint.group_of_shape.size(); ++shape)
    for (const auto& [link, load] : joint.shape(shape))
      crossings_[next[link]++] = {shape, load & (kNone >> 1U), 0};
}

LinkCrossings::Crossing& LinkCrossings::at(LinkId link, std::uint32_t shape) {
  const std::span<Crossing> here = of(link);
  const auto place = std::ranges::lower_bound(here, shape, {}, &Crossing::shape);
  TY_CHECK(place != here.end() && place->shape == shape, link, shape);
  return *place;
}

}  // namespace trainyard
