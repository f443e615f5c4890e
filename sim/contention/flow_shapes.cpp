#include "sim/contention/flow_shapes.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"
#include "sim/base/mixed.hpp"

namespace trainyard {

namespace {

bool are_alike(double a, double b) {
  constexpr double kAlike = 0x1p-40;  // sums of the same loads in another order
  return std::abs(a - b) <= kAlike * a;
}

}  // namespace

FlowShapes::FlowShapes(const Cluster& cluster, const ParallelLinkIndex& parallel, bool every_link)
    : cluster_(cluster), parallel_(parallel), every_link_(every_link) {}

void FlowShapes::begin() {
  first_ = table_.count();
  shapes_here_.clear();
}

ShapedPhase FlowShapes::shaped(const Phase& phase) {
  ShapedPhase result{.latency_s = phase.latency.value(), .flows = {}};
  // By shape, payload and cap: the index of such a flow in the result.
  std::unordered_map<std::vector<std::uint64_t>, std::size_t, ListHash> holder_of;
  for (const MultiLinkFlow& flow : phase.flows) {
    double payload = 0.0;
    for (const LinkLoad& load : flow.loads) payload = std::max(payload, load.bytes);
    if (payload <= 0.0) continue;  // a flow without payload takes no time
    const std::uint32_t shape = shape_of(flow, payload);
    const auto [place, fresh] = holder_of.try_emplace(
        {shape, rounded_key(payload), rounded_key(flow.rate_cap_bytes_per_s)}, result.flows.size());
    if (!fresh) {
      ++result.flows[place->second].count;
      continue;
    }
    result.flows.push_back({.shape = shape,
                            .count = 1,
                            .payload_bytes = payload,
                            .rate_cap_bytes_per_s = flow.rate_cap_bytes_per_s});
  }
  return result;
}

// Returns the flow's load on the lowest of each set of parallel links. A flow must load all links
// of a set equally; hold_ becomes false where it does not. A set of 16 links may come as one load
// with a `parallel_count` of 16, or as 16 loads.
std::vector<ShapeLoad> FlowShapes::loads_of(std::span<const LinkLoad> loads, double payload) {
  std::vector<ShapeLoad> shape;
  for (const LinkLoad& load : loads) {
    TY_CHECK(load.link < parallel_.lowest.size(), load.link, parallel_.lowest.size());
    if (load.bytes <= 0.0) continue;
    const LinkId lowest = parallel_.lowest[load.link];
    if (parallel_.count[lowest] == 1 || meet(lowest, load))
      shape.push_back({lowest, load_index(load.bytes / payload)});
  }
  for (const auto& [lowest, met] : met_)
    if (met.links != parallel_.count[lowest]) hold_ = false;
  met_.clear();
  if (!std::ranges::is_sorted(shape, {}, &ShapeLoad::link))
    std::ranges::sort(shape, {}, &ShapeLoad::link);
  return shape;
}

// Records the load on one link of a set. Returns whether it is the first of the set for the present
// flow.
bool FlowShapes::meet(LinkId lowest, const LinkLoad& load) {
  const auto [entry, first] = met_.try_emplace(lowest, ParallelLoad{.bytes = load.bytes});
  ParallelLoad& met = entry->second;
  met.links += load.parallel_count;
  if (!are_alike(met.bytes, load.bytes)) hold_ = false;
  return first;
}

// Returns the shape of the flow among those of its group, and adds it if it is new.
std::uint32_t FlowShapes::shape_of(const MultiLinkFlow& flow, double payload) {
  const std::vector<ShapeLoad> shape = every_link_
                                           ? loads_of(every_link(cluster_, flow.loads), payload)
                                           : loads_of(flow.loads, payload);
  std::uint64_t hash = shape.size();
  for (const ShapeLoad& load : shape)
    hash = hash_with(hash, std::uint64_t{load.link} << 32U | load.load);
  // Equal hashes are candidates only: the shapes are compared.
  const auto [begin, end] = shapes_here_.equal_range(hash);
  for (auto candidate = begin; candidate != end; ++candidate) {
    if (std::ranges::equal(table_.shape(first_ + candidate->second), shape))
      return candidate->second;
  }
  const std::uint32_t index = table_.count() - first_;
  table_.shape_loads.insert(table_.shape_loads.end(), shape.begin(), shape.end());
  table_.offsets.push_back(table_.shape_loads.size());
  shapes_here_.emplace(hash, index);
  return index;
}

// Loads nearer than 2^-40 of their size get one index: sums in another order must not make new
// shapes.
std::uint32_t FlowShapes::load_index(double load) {
  const std::uint64_t key = rounded_key(load);
  if (last_load_ && last_load_->first == key) return last_load_->second;
  const auto [entry, fresh] =
      load_indices_.try_emplace(key, static_cast<std::uint32_t>(table_.loads.size()));
  if (fresh) table_.loads.push_back(load);
  last_load_ = *entry;
  return entry->second;
}

}  // namespace trainyard
