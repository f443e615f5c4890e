// The routes of messages between GPUs: within nodes, and between nodes over the fabric.
//
//    for (RouteHop hop : cluster.router().route(0, 8)) use(cluster.link(hop.link), hop.fraction);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "sim/cluster/fabric_paths.hpp"

namespace trainyard {

// A route lists every link, or only the lowest link of each set of parallel links with equal loads.
enum class RouteDetail : std::uint8_t { EveryLink, ParallelLinks };

// Routes depend on the wiring and not on rates. Thread-safe.
class Router {
 public:
  // The GPUs at which a message leaves its node and enters the other node.
  struct Crossing {
    std::uint32_t leaves_at = 0;
    std::uint32_t enters_at = 0;
  };

  // Throws InputError for GPUs that cannot reach each other.
  explicit Router(Topology topology);

  // Within a node: over NVLink if it joins the GPUs, else over the host side, else over the fabric.
  // Between nodes: through the NIC of the source, over the shortest paths of the fabric
  // (facts().routing chooses among them), and through the NIC of the destination. If no path joins
  // these two NICs (two planes, a failed rail), another GPU of the source's node relays the
  // message, else one of the destination's node. Empty if from == to.
  [[nodiscard]] Route route(std::uint32_t from_gpu, std::uint32_t to_gpu,
                            RouteDetail detail = RouteDetail::EveryLink) const;
  // Returns a route that leaves the node through the NIC of the local GPU with the destination's
  // index, reached over NVLink, so that it crosses the fabric on one rail (NCCL's PXN). Equal to
  // route() if the sender has no NVLink path to that GPU.
  [[nodiscard]] Route route_rail_aligned(std::uint32_t from_gpu, std::uint32_t to_gpu,
                                         RouteDetail detail = RouteDetail::EveryLink) const;
  // Returns the route of a copy from a GPU to the memory of the nearest CPU (fewest links; chip to
  // chip, or through PCIe switches), or back. Empty if no CPU is wired to the GPU.
  [[nodiscard]] Route route_to_host(std::uint32_t gpu) const { return nodes_.to_host(gpu); }
  [[nodiscard]] Route route_from_host(std::uint32_t gpu) const { return nodes_.from_host(gpu); }

  // Returns the number of switches that a message on route() passes between nodes. It is equal on
  // all shortest paths. Returns nothing if some links count for several hops or NICs relay the
  // traffic of others; then only route() has the switches.
  [[nodiscard]] std::optional<std::uint32_t> switches_between(std::uint32_t from_gpu,
                                                              std::uint32_t to_gpu) const;
  // Links with equal loads and switches with equivalent wiring. All are single if routing is not
  // ideal.
  [[nodiscard]] const ParallelLinks& parallel_links() const { return parallel_links_; }

  // Returns where messages on route() cross the fabric. REQUIRES: GPUs of two nodes.
  [[nodiscard]] Crossing crossing(std::uint32_t from_gpu, std::uint32_t to_gpu) const;
  // Returns where messages on route_rail_aligned() cross it; nothing if that route is route().
  [[nodiscard]] std::optional<Crossing> rail_crossing(std::uint32_t from_gpu,
                                                      std::uint32_t to_gpu) const;
  [[nodiscard]] const Topology& topology() const { return topology_; }
  [[nodiscard]] const NodePaths& nodes() const { return nodes_; }
  [[nodiscard]] const FabricPaths& fabric() const { return fabric_; }

 private:
  [[nodiscard]] std::optional<std::uint32_t> rail_relay(std::uint32_t from_gpu,
                                                        std::uint32_t to_gpu) const;
  [[nodiscard]] Route across_fabric(Crossing ends, Route so_far, RouteDetail detail) const;
  [[nodiscard]] Route all_paths(Crossing ends, Route so_far, RouteDetail detail) const;
  [[nodiscard]] Route hashed_paths(Crossing ends, Route so_far) const;
  [[nodiscard]] std::shared_ptr<const Trunk> cached_trunk(const Arc& start,
                                                          std::uint32_t target) const;
  void append_trunk(Route& route, const Trunk& trunk, RouteDetail detail) const;

  Topology topology_;
  ParallelLinks parallel_links_;
  NodePaths nodes_;
  FabricPaths fabric_;
  FabricComponents components_;
  // Cached trunks, by the index of the first switch and the target.
  mutable std::unordered_map<std::uint64_t, std::shared_ptr<const Trunk>> trunks_;
  mutable std::size_t trunk_hops_ = 0;  // of all cached trunks
  mutable std::mutex mutex_;            // guards both
};

}  // namespace trainyard
