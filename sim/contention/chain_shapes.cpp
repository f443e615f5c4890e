#include "sim/contention/chain_shapes.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"
#include "sim/base/mixed.hpp"
#include "sim/cluster/link_bundles.hpp"

namespace trainyard {

namespace {

bool are_alike(double a, double b) {
  constexpr double kAlike = 0x1p-40;  // of sums in another order
  return std::abs(a - b) <= kAlike * a;
}

}  // namespace

ChainShapes::ChainShapes(const Cluster& cluster, const JointGraph& joint, bool every_link)
    : cluster_(cluster), joint_(joint), every_link_(every_link) {}

void ChainShapes::begin() {
  first_ = count();
  shapes_here_.clear();
}

ShapedPhase ChainShapes::shaped(const Phase& phase) {
  ShapedPhase result{.latency_s = phase.latency.value(), .chains = {}};
  // By shape, payload and cap, where in the result such a chain is.
  std::unordered_map<std::vector<std::uint64_t>, std::size_t, KeyHash> place_of;
  for (const Chain& chain : phase.chains) {
    double payload = 0.0;
    for (const LinkLoad& load : chain.loads) payload = std::max(payload, load.bytes);
    if (payload <= 0.0) continue;  // Nothing to move takes no time.
    const std::uint32_t shape = shape_of(chain, payload);
    const auto [place, fresh] =
        place_of.try_emplace({shape, rounded_key(payload), rounded_key(chain.rate_cap_bytes_per_s)},
                             result.chains.size());
    if (!fresh) {
      ++result.chains[place->second].count;
      continue;
    }
    result.chains.push_back({.shape = shape,
                             .count = 1,
                             .payload_bytes = payload,
                             .rate_cap_bytes_per_s = chain.rate_cap_bytes_per_s});
  }
  return result;
}

// Finds what the chain puts on the lowest of parallel links, all of which it must load alike.
std::vector<ShapeLoad> ChainShapes::loads_of(std::span<const LinkLoad> loads, double payload) {
  std::vector<ShapeLoad> shape;
  for (const LinkLoad& load : loads) {
    TY_CHECK(load.link < joint_.parallel_of.size(), load.link, joint_.parallel_of.size());
    if (load.bytes <= 0.0) continue;
    const LinkId lowest = joint_.parallel_of[load.link];
    if (joint_.parallel_links[lowest] == 1 || meet(lowest, load))
      shape.push_back({lowest, load_index(load.bytes / payload)});
  }
  for (const auto& [lowest, met] : met_)
    if (met.links != joint_.parallel_links[lowest]) hold_ = false;
  met_.clear();
  if (!std::ranges::is_sorted(shape, {}, &ShapeLoad::link))
    std::ranges::sort(shape, {}, &ShapeLoad::link);
  return shape;
}

// Whether the chain at hand has met none of the links parallel to that before.
bool ChainShapes::meet(LinkId lowest, const LinkLoad& load) {
  const auto [entry, first] = met_.try_emplace(lowest, ParallelLoad{.bytes = load.bytes});
  ParallelLoad& met = entry->second;
  met.links += load.alike;
  if (!are_alike(met.bytes, load.bytes)) hold_ = false;
  return first;
}

// The shape of the chain among those of its group; a new one if it has no like.
std::uint32_t ChainShapes::shape_of(const Chain& chain, double payload) {
  const std::vector<ShapeLoad> shape = every_link_
                                           ? loads_of(every_link(cluster_, chain.loads), payload)
                                           : loads_of(chain.loads, payload);
  std::uint64_t hash = shape.size();
  for (const ShapeLoad& load : shape)
    hash = hash_with(hash, std::uint64_t{load.link} << 32U | load.load);
  const auto [begin, end] = shapes_here_.equal_range(hash);
  for (auto candidate = begin; candidate != end; ++candidate) {
    if (std::ranges::equal(this->shape(first_ + candidate->second), shape,
                           [](const ShapeLoad& a, const ShapeLoad& b) {
                             return a.link == b.link && a.load == b.load;
                           })) {
      return candidate->second;
    }
  }
  const std::uint32_t index = count() - first_;
  shape_loads_.insert(shape_loads_.end(), shape.begin(), shape.end());
  offsets_.push_back(shape_loads_.size());
  shapes_here_.emplace(hash, index);
  return index;
}

std::uint32_t ChainShapes::load_index(double load) {
  const std::uint64_t key = rounded_key(load);
  if (last_load_ && last_load_->first == key) return last_load_->second;
  const auto [entry, fresh] =
      load_indices_.try_emplace(key, static_cast<std::uint32_t>(loads_.size()));
  if (fresh) loads_.push_back(load);
  last_load_ = *entry;
  return entry->second;
}

}  // namespace trainyard
