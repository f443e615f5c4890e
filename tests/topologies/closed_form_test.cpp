// Is a cluster built node by node and tier by tier the same as one built link by link?
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/cluster/blueprint.hpp"
#include "tests/topologies/clusters.hpp"
#include "tests/topologies/one_gpu_node.hpp"
#include "topologies/faults.hpp"

namespace trainyard {
namespace {

constexpr std::uint64_t kSeeds = 60;

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed) {}
  std::uint32_t below(std::uint32_t end) {
    return static_cast<std::uint32_t>(random_.word() % end);
  }
  template <class Value>
  Value one_of(const std::vector<Value>& values) {
    return values[below(static_cast<std::uint32_t>(values.size()))];
  }

 private:
  Random random_;
};

ClusterSpec random_spec(Draws& draws) {
  NodeSpec node = draws.below(2) == 0 ? one_gpu_node() : load_node("dgx_h100");
  if (node.gpus == 8 && draws.below(2) == 0) node.nics = 4;
  const Routing routing{
      .kind = draws.one_of<Routing::Kind>({Routing::Kind::Ideal, Routing::Kind::Ideal,
                                           Routing::Kind::Ecmp, Routing::Kind::RoundRobin})};
  const std::uint32_t nodes = 2 + draws.below(30);
  const auto fabric =
      draws.one_of<std::string>({"single_switch", "rail_optimized", "rail_optimized", "fat_tree",
                                 "fat_tree3", "multi_plane", "dual_tor", "torus", "dragonfly"});
  const auto radix = draws.one_of<std::uint32_t>({4, 8, 16, 64});
  const auto oversubscription = draws.one_of<double>({1.0, 1.0, 3.0});
  return {.node = std::move(node),
          .nodes = nodes,
          .fabric = {.kind = fabric_named(fabric, radix, oversubscription), .routing = routing}};
}

// Nothing if the fabric does not hold the nodes.
std::optional<Cluster> random_cluster(Draws& draws) {
  try {
    return build_cluster(random_spec(draws));
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// Every link separately: first the first one of each device, then the second ones.
Wiring link_by_link(const Wiring& whole) {
  Blueprint blueprint(whole);
  bool more = true;
  for (std::uint32_t round = 0; more; ++round) {
    more = false;
    for (DeviceId device = 0; device < whole.device_count(); ++device) {
      const LinkId id = whole.first_link_from(device) + round;
      if (id >= whole.first_link_from(device + 1)) continue;
      const Link link = whole.link(id);
      blueprint.link(link.from, link.to, wire_of(link));
      more = true;
    }
  }
  return std::move(blueprint).wiring();
}

using Hops = std::vector<std::tuple<LinkId, double, std::uint32_t>>;

Hops hops_of(const Route& route) {
  Hops hops;
  for (const RouteHop& hop : route) hops.emplace_back(hop.link, hop.fraction, hop.parallel_count);
  return hops;
}

void expect_same_ways(const Cluster& a, const Cluster& b, Draws& draws) {
  const auto gpus = static_cast<std::uint32_t>(a.gpus().size());
  int between_nodes = 0;
  for (int pair = 0; pair < 40; ++pair) {
    const std::uint32_t from = draws.below(gpus);
    const std::uint32_t to = draws.below(gpus);
    for (const RouteDetail detail : {RouteDetail::EveryLink, RouteDetail::ParallelLinks}) {
      ASSERT_EQ(hops_of(a.router().route(from, to, detail)),
                hops_of(b.router().route(from, to, detail)));
      ASSERT_EQ(hops_of(a.router().route_rail_aligned(from, to, detail)),
                hops_of(b.router().route_rail_aligned(from, to, detail)));
    }
    ASSERT_EQ(a.latency().extra(from, to), b.latency().extra(from, to));
    ASSERT_EQ(a.latency().extra_rail_aligned(from, to), b.latency().extra_rail_aligned(from, to));
    if (a.node_of(from) != a.node_of(to)) {
      ASSERT_EQ(a.router().switches_between(from, to), b.router().switches_between(from, to));
      ++between_nodes;
    }
    ASSERT_EQ(hops_of(a.router().route_to_host(from)), hops_of(b.router().route_to_host(from)));
  }
  EXPECT_GT(between_nodes, 0);
}

void expect_same(const Cluster& a, const Cluster& b, Draws& draws) {
  ASSERT_EQ(a.device_count(), b.device_count());
  for (DeviceId id = 0; id < a.device_count(); ++id) {
    ASSERT_EQ(a.device(id), b.device(id));
    ASSERT_EQ(a.name(id), b.name(id));
    ASSERT_EQ(a.wiring().first_link_from(id), b.wiring().first_link_from(id));
    ASSERT_EQ(a.router().parallel_links().lowest_equivalent(id),
              b.router().parallel_links().lowest_equivalent(id));
  }
  ASSERT_EQ(a.links().size(), b.links().size());
  for (LinkId link = 0; link < a.links().size(); ++link) {
    ASSERT_EQ(a.link(link), b.link(link));
    ASSERT_EQ(a.router().parallel_links().of(link), b.router().parallel_links().of(link));
    ASSERT_TRUE(std::ranges::equal(a.router().parallel_links().links(link),
                                   b.router().parallel_links().links(link)));
  }
  ASSERT_EQ(a.nic_of_gpu(), b.nic_of_gpu());
  expect_same_ways(a, b, draws);
}

// Is the closed form the same as a link-by-link construction?
TEST(ClosedForm, IsWhatIsDrawnLinkByLink) {
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Draws draws(seed);
    const std::optional<Cluster> drawn = random_cluster(draws);
    if (!drawn) continue;
    EXPECT_GT(drawn->wiring().runs_end(), 0U);
    const Cluster flat(drawn->facts(), link_by_link(drawn->wiring()), drawn->gpus(),
                       drawn->nic_of_gpu());
    EXPECT_EQ(flat.wiring().runs_end(), 0U);
    expect_same(*drawn, flat, draws);
    if (HasFatalFailure()) return;
    ++compared;
  }
  EXPECT_GT(compared, kSeeds / 2);
}

// A link or a switch that is slow or dead.
Fault random_fault(const Cluster& cluster, Draws& draws) {
  const double left = draws.below(2) == 0 ? 0.5 : 0.0;
  std::vector<Link> links;
  for (const Link link : cluster.links())
    if (is_fabric_side(link.kind)) links.push_back(link);
  const Link link = draws.one_of(links);
  if (draws.below(3) > 0)
    return {.from = cluster.name(link.from), .to = cluster.name(link.to), .capacity_factor = left};
  const bool from = is_fabric_switch(cluster.device(link.from).kind);
  return {.part = Fault::Part::Device,
          .device = cluster.name(from ? link.from : link.to),
          .capacity_factor = left};
}

// Does a fault have the same effect as in a link-by-link construction?
TEST(ClosedForm, BreaksAsWhatIsDrawnLinkByLink) {
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Draws draws(seed);
    const std::optional<Cluster> drawn = random_cluster(draws);
    if (!drawn) continue;
    const std::array faults{random_fault(*drawn, draws)};
    const auto broken = [&](Wiring wiring) -> std::optional<Cluster> {
      try {
        return build_with_faults(faults, drawn->facts(), std::move(wiring), drawn->gpus(),
                                 drawn->nic_of_gpu());
      } catch (const InputError&) {
        return std::nullopt;
      }
    };
    const std::optional<Cluster> a = broken(drawn->wiring());
    const std::optional<Cluster> b = broken(link_by_link(drawn->wiring()));
    ASSERT_EQ(a.has_value(), b.has_value());
    if (!a) continue;
    expect_same(*a, *b, draws);
    if (HasFatalFailure()) return;
    ++compared;
  }
  EXPECT_GT(compared, kSeeds / 3);
}

// ---- parallel links by a slow search that knows no strided ranges

// The class of each switch: every switch with endpoints has a separate class; the others start with
// one class per kind, and their neighbours split these until no class splits.
std::map<DeviceId, std::size_t> classes_of(const Cluster& cluster) {
  std::map<DeviceId, std::size_t> classes;
  std::set<DeviceId> with_endpoints;
  const auto is_switch = [&](DeviceId id) { return is_fabric_switch(cluster.device(id).kind); };
  for (const Link link : cluster.links()) {
    if (is_switch(link.from) && !is_switch(link.to)) with_endpoints.insert(link.from);
    if (is_switch(link.to) && !is_switch(link.from)) with_endpoints.insert(link.to);
  }
  for (DeviceId id = 0; id < cluster.device_count(); ++id)
    if (is_switch(id))
      classes[id] = with_endpoints.contains(id) ? std::size_t{id} + kDeviceKinds
                                                : static_cast<std::size_t>(cluster.device(id).kind);
  const auto count = [&] {
    std::set<std::size_t> different;
    for (const auto& [id, number] : classes) different.insert(number);
    return different.size();
  };
  for (std::size_t before = 0; before != count();) {
    before = count();
    using Seen = std::multiset<std::tuple<bool, Wire, std::size_t>>;
    std::map<DeviceId, Seen> seen;
    for (const Link link : cluster.links()) {
      if (!is_switch(link.from) || !is_switch(link.to)) continue;
      seen[link.from].insert({true, wire_of(link), classes[link.to]});
      seen[link.to].insert({false, wire_of(link), classes[link.from]});
    }
    std::map<std::pair<std::size_t, Seen>, std::size_t> numbers;
    std::map<DeviceId, std::size_t> next;
    for (const auto& [id, number] : classes)
      next[id] = numbers.try_emplace({number, seen[id]}, numbers.size()).first->second;
    classes = std::move(next);
  }
  return classes;
}

// Are the parallel links those of a slow search?
TEST(ClosedForm, ParallelLinksAreThoseOfASlowSearch) {
  std::size_t bundled = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Draws draws(seed);
    std::optional<Cluster> cluster = random_cluster(draws);
    if (!cluster || cluster->facts().routing.kind != Routing::Kind::Ideal) continue;
    if (draws.below(2) == 0) {
      const std::array faults{random_fault(*cluster, draws)};
      if (faults[0].capacity_factor > 0.0)
        cluster = build_with_faults(faults, cluster->facts(), cluster->wiring(), cluster->gpus(),
                                    cluster->nic_of_gpu());
    }
    std::map<DeviceId, std::size_t> classes = classes_of(*cluster);
    std::map<std::tuple<std::size_t, std::size_t, Wire>, LinkId> lowest;
    for (const Link link : cluster->links()) {
      LinkId wanted = link.id;
      if (classes.contains(link.from) && classes.contains(link.to))
        wanted = lowest.try_emplace({classes[link.from], classes[link.to], wire_of(link)}, link.id)
                     .first->second;
      bundled += wanted == link.id ? 0U : 1U;
      ASSERT_EQ(cluster->router().parallel_links().of(link.id), wanted) << seed;
    }
  }
  EXPECT_GT(bundled, 100U);
}

}  // namespace
}  // namespace trainyard
