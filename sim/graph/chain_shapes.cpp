#include "sim/graph/chain_shapes.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"
#include "sim/graph/link_bundles.hpp"

namespace trainyard {

ChainShapes::ChainShapes(const Cluster& cluster, JointGraph& joint, bool every_link)
    : cluster_(cluster),
      joint_(joint),
      every_link_(every_link),
      shared_by_(joint.bundle_of.size(), 0),
      met_(joint.bundle_of.size()) {
  for (const LinkId lowest : joint.bundle_of) ++shared_by_[joint.row_of[lowest]];
}

void ChainShapes::begin(GroupId group) {
  group_ = group;
  shapes_here_.clear();
}

ShapedPhase ChainShapes::shaped(const Phase& phase) {
  ShapedPhase result{.latency_s = phase.latency.value(), .chains = {}};
  for (const Chain& chain : phase.chains) {
    double payload = 0.0;
    for (const LinkLoad& load : chain.loads) payload = std::max(payload, load.bytes);
    if (payload <= 0.0) continue;  // Nothing to move takes no time.
    const ShapedChain made{.shape = shape_of(chain, payload),
                           .count = 1,
                           .payload_bytes = payload,
                           .rate_cap_bytes_per_s = chain.rate_cap_bytes_per_s};
    const auto equal = std::ranges::find_if(result.chains, [&](const ShapedChain& other) {
      return other.shape == made.shape &&
             rounded_key(other.payload_bytes) == rounded_key(payload) &&
             rounded_key(other.rate_cap_bytes_per_s) == rounded_key(made.rate_cap_bytes_per_s);
    });
    if (equal == result.chains.end()) {
      result.chains.push_back(made);
    } else {
      ++equal->count;
    }
  }
  return result;
}

// What the chain puts on one link of each bundle and row. All its links must be loaded alike, or it
// is none.
std::vector<ShapeLoad> ChainShapes::loads_of(std::span<const LinkLoad> loads, double payload) {
  std::vector<ShapeLoad> shape;
  shared_.clear();
  for (const LinkLoad& load : loads) {
    if (load.bytes <= 0.0) continue;
    TY_CHECK(load.link < cluster_.links().size(), load.link, cluster_.links().size());
    const LinkId stands = joint_.row_of[joint_.bundle_of[load.link]];
    const bool alone = shared_by_[stands] == 1;
    if (alone || meet(stands, load)) shape.push_back({stands, load_index(load.bytes / payload)});
  }
  for (const LinkId stands : shared_) {
    if (met_[stands].links != shared_by_[stands]) hold_ = false;
    met_[stands] = {};
  }
  if (!std::ranges::is_sorted(shape, {}, &ShapeLoad::link))
    std::ranges::sort(shape, {}, &ShapeLoad::link);
  return shape;
}

// Whether the chain at hand has not met the bundle or row before.
bool ChainShapes::meet(LinkId stands, const LinkLoad& load) {
  constexpr double kAlike = 0x1p-40;  // of sums in another order
  SharedLoad& met = met_[stands];
  const bool first = met.links == 0;
  met.links += load.alike;
  if (first) {
    met.bytes = load.bytes;
    shared_.push_back(stands);
  } else if (std::abs(load.bytes - met.bytes) > kAlike * met.bytes) {
    hold_ = false;
  }
  return first;
}

// The shape of the chain among those of its group; a new one if it has no like.
std::uint32_t ChainShapes::shape_of(const Chain& chain, double payload) {
  const std::vector<ShapeLoad> shape = every_link_
                                           ? loads_of(every_link(cluster_, chain.loads), payload)
                                           : loads_of(chain.loads, payload);
  std::uint64_t hash = shape.size();
  for (const ShapeLoad& load : shape) {
    hash = (hash ^ ((std::uint64_t{load.link} << 32U) | load.load)) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29U;
  }
  const auto [begin, end] = shapes_here_.equal_range(hash);
  const std::uint32_t first = joint_.first_shape[group_];
  for (auto candidate = begin; candidate != end; ++candidate) {
    if (std::ranges::equal(joint_.shape(first + candidate->second), shape,
                           [](const ShapeLoad& a, const ShapeLoad& b) {
                             return a.link == b.link && a.load == b.load;
                           })) {
      return candidate->second;
    }
  }
  const auto index = static_cast<std::uint32_t>(joint_.group_of_shape.size()) - first;
  joint_.group_of_shape.push_back(group_);
  joint_.shape_loads.insert(joint_.shape_loads.end(), shape.begin(), shape.end());
  joint_.shape_offsets.push_back(joint_.shape_loads.size());
  shapes_here_.emplace(hash, index);
  return index;
}

std::uint32_t ChainShapes::load_index(double load) {
  const std::uint64_t key = rounded_key(load);
  if (last_load_ && last_load_->first == key) return last_load_->second;
  const auto [entry, fresh] =
      load_indices_.try_emplace(key, static_cast<std::uint32_t>(joint_.loads.size()));
  if (fresh) joint_.loads.push_back(load);
  last_load_ = *entry;
  return entry->second;
}

}  // namespace trainyard
