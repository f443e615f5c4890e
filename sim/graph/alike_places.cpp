#include "sim/graph/alike_places.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <tuple>

namespace trainyard {

namespace {

constexpr std::uint64_t kNodeMates = 0;
constexpr std::uint64_t kMessage = 1;

// All of a link but where it lies.
auto wire_of(const Link& link) {
  return std::tuple(link.kind, link.capacity, link.nominal, link.latency, link.cables);
}

std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

bool inside_node(const Cluster& cluster, const Link& link) {
  return cluster.device(link.to).node == cluster.device(link.from).node;
}

}  // namespace

AlikePlaces::AlikePlaces(const Cluster& cluster) : cluster_(cluster) {
  collect_node_links();
  number_nodes();
}

void AlikePlaces::collect_node_links() {
  const std::uint32_t nodes = cluster_.facts().nodes;
  std::vector<std::uint32_t> devices(nodes, 0);
  first_link_.assign(nodes + std::size_t{1}, 0);
  const auto node_of = [&](DeviceId id) { return cluster_.device(id).node; };
  const auto count = static_cast<DeviceId>(boost::num_vertices(cluster_.graph()));
  for (DeviceId id = 0; id < count; ++id) {
    const std::int32_t node = node_of(id);
    place_of_device_.push_back(node < 0 ? kNone : devices[static_cast<std::size_t>(node)]++);
    if (node < 0) continue;
    first_link_[static_cast<std::size_t>(node) + 1] += cluster_.links_from(id).size();
  }
  std::partial_sum(first_link_.begin(), first_link_.end(), first_link_.begin());
  links_.resize(first_link_.back());
  std::vector<std::size_t> next(first_link_.begin(), first_link_.end() - 1);
  for (DeviceId id = 0; id < count; ++id) {
    if (node_of(id) < 0) continue;
    for (const Link& link : cluster_.links_from(id))
      links_[next[static_cast<std::size_t>(node_of(id))]++] = link.id;
  }
}

std::span<const LinkId> AlikePlaces::links_of(std::uint32_t node) const {
  return std::span(links_).subspan(first_link_[node], first_link_[node + 1] - first_link_[node]);
}

// Nodes by what they are made of; those of one hash are compared part by part.
void AlikePlaces::number_nodes() {
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> kinds;
  for (std::uint32_t node = 0; node < cluster_.facts().nodes; ++node) {
    std::vector<std::uint32_t>& candidates = kinds[hash_of(node)];
    const auto like = std::ranges::find_if(
        candidates, [&](std::uint32_t other) { return are_alike(node, other); });
    kind_of_node_.push_back(like == candidates.end() ? node : *like);
    if (like == candidates.end()) candidates.push_back(node);
  }
}

std::uint64_t AlikePlaces::hash_of(std::uint32_t node) const {
  std::uint64_t hash = links_of(node).size();
  for (const LinkId id : links_of(node)) {
    const Link& link = cluster_.link(id);
    hash = (hash ^ bits(link.capacity.value()) ^ static_cast<std::uint64_t>(link.kind)) *
           0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29U;
  }
  return hash;
}

bool AlikePlaces::are_alike(std::uint32_t a, std::uint32_t b) const {
  const std::uint32_t gpus = cluster_.facts().gpus_per_node;
  for (std::uint32_t i = 0; i < gpus; ++i) {
    const std::uint32_t here = a * gpus + i;
    const std::uint32_t there = b * gpus + i;
    const auto place = [&](DeviceId id) { return place_of_device_[id]; };
    if (place(cluster_.gpus()[here]) != place(cluster_.gpus()[there])) return false;
    if (cluster_.has_mixed_gpus() && cluster_.gpu_kind(here) != cluster_.gpu_kind(there))
      return false;
    const std::vector<DeviceId>& nics = cluster_.nic_of_gpu();
    if (!nics.empty() && place(nics[here]) != place(nics[there])) return false;
  }
  const auto end = [&](DeviceId id) {
    return std::pair(place_of_device_[id], cluster_.device(id).kind);
  };
  return std::ranges::equal(links_of(a), links_of(b), [&](LinkId here, LinkId there) {
    const Link& x = cluster_.link(here);
    const Link& y = cluster_.link(there);
    const bool inside = inside_node(cluster_, x);
    return wire_of(x) == wire_of(y) && end(x.from) == end(y.from) &&
           inside == inside_node(cluster_, y) && (!inside || end(x.to) == end(y.to));
  });
}

void AlikePlaces::put_standing(std::uint32_t gpu) {
  key_.push_back(std::uint64_t{kind_of_node_[cluster_.node_of(gpu)]} << 32U |
                 cluster_.local_index(gpu));
}

AlikePlaces::Place AlikePlaces::named() {
  const auto next = static_cast<std::uint32_t>(numbers_.size());
  auto known = numbers_.find(key_);
  if (known == numbers_.end()) known = numbers_.emplace(key_, next).first;
  return {known->second, hops_};
}

std::optional<AlikePlaces::Place> AlikePlaces::of_node_mates(std::span<const std::uint32_t> gpus) {
  const std::uint32_t node = cluster_.node_of(gpus.front());
  const auto is_mate = [&](std::uint32_t gpu) { return cluster_.node_of(gpu) == node; };
  if (!std::ranges::all_of(gpus, is_mate)) return std::nullopt;
  key_.assign(1, kNodeMates);
  for (const std::uint32_t gpu : gpus) put_standing(gpu);
  hops_.clear();
  for (const LinkId link : links_of(node)) hops_.push_back({.link = link});
  return named();
}

std::optional<AlikePlaces::Place> AlikePlaces::of_message(std::uint32_t from_gpu,
                                                          std::uint32_t to_gpu) {
  if (cluster_.node_of(from_gpu) == cluster_.node_of(to_gpu)) return std::nullopt;
  hops_ = cluster_.route_rail_aligned(from_gpu, to_gpu, RouteDetail::Bundles);
  key_.assign(1, kMessage);
  put_standing(from_gpu);
  put_standing(to_gpu);
  key_.push_back(bits(cluster_.extra_latency_rail_aligned(from_gpu, to_gpu).value()));
  for (auto hop = hops_.begin(); hop != hops_.end(); ++hop) {
    const auto same = [&](const RouteHop& other) { return other.link == hop->link; };
    if (std::any_of(hops_.begin(), hop, same)) return std::nullopt;
    const Link& link = cluster_.link(hop->link);
    key_.insert(key_.end(), {std::uint64_t{hop->alike} << 32U | link.cables,
                             static_cast<std::uint64_t>(link.kind), bits(hop->fraction),
                             bits(link.capacity.value()), bits(link.nominal.value()),
                             bits(link.latency.value())});
  }
  return named();
}

}  // namespace trainyard
