#include "sim/fold/chain_shapes.hpp"

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
    : cluster_(cluster),
      joint_(joint),
      every_link_(every_link),
      behind_(joint.row_of.size(), 0),
      place_of_(joint.row_of.size(), kNone) {
  for (LinkId link = 0; link < behind_.size(); ++link)
    if (joint.row_of[link] != link) ++behind_[joint.row_of[link]];
}

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

// What the chain puts on one link of each bundle and row. All its links must be loaded alike, or it
// is none. As each link comes once, a row is whole where as many are loaded behind those that stand
// for others as there are behind them.
std::vector<ShapeLoad> ChainShapes::loads_of(std::span<const LinkLoad> loads, double payload) {
  note_standing(loads);
  std::vector<ShapeLoad> shape;
  std::size_t behind = 0;
  std::size_t expected = 0;
  for (const LinkLoad& load : loads) {
    if (load.bytes <= 0.0) continue;
    const LinkId lowest = joint_.bundle_of[load.link];
    const LinkId stands = joint_.row_of[lowest];
    if (stands != lowest) {
      ++behind;
      const std::uint32_t place = place_of_[stands];
      if (place == kNone || !are_alike(loads[place].bytes, load.bytes)) hold_ = false;
      continue;
    }
    expected += behind_[stands];
    if (joint_.bundle_size[lowest] == 1 || meet(lowest, load))
      shape.push_back({lowest, load_index(load.bytes / payload)});
  }
  if (behind != expected) hold_ = false;
  forget(loads);
  if (!std::ranges::is_sorted(shape, {}, &ShapeLoad::link))
    std::ranges::sort(shape, {}, &ShapeLoad::link);
  return shape;
}

// Where in the chain those are that stand for a row.
void ChainShapes::note_standing(std::span<const LinkLoad> loads) {
  for (std::uint32_t place = 0; place < loads.size(); ++place) {
    const auto& [link, bytes, alike] = loads[place];
    TY_CHECK(link < behind_.size(), link, behind_.size());
    if (bytes > 0.0 && behind_[link] > 0) place_of_[link] = place;
  }
}

void ChainShapes::forget(std::span<const LinkLoad> loads) {
  for (const LinkLoad& load : loads)
    if (behind_[load.link] > 0) place_of_[load.link] = kNone;
  for (const auto& [lowest, met] : bundles_met_)
    if (met.links != joint_.bundle_size[lowest]) hold_ = false;
  bundles_met_.clear();
}

// Whether the chain at hand has not met the bundle before.
bool ChainShapes::meet(LinkId lowest, const LinkLoad& load) {
  const auto [entry, first] = bundles_met_.try_emplace(lowest, BundleLoad{.bytes = load.bytes});
  BundleLoad& met = entry->second;
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
