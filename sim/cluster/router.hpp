// How messages travel from GPU to GPU: within nodes, and from node to node over the fabric.
//
//   for (RouteHop hop : cluster.router().route(0, 8)) use(cluster.link(hop.link), hop.fraction);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "sim/cluster/fabric_paths.hpp"

namespace trainyard {

// A route names every link, or only the lowest link of a set of parallel links that it loads alike.
enum class RouteDetail : std::uint8_t { EveryLink, ParallelLinks };

// Routes depend on what is joined to what and on nothing's rate. Several threads may ask.
class Router {
 public:
  // The GPUs at which a message leaves its node and enters the other.
  struct Crossing {
    std::uint32_t leaves_at = 0;
    std::uint32_t enters_at = 0;
  };

  // Throws InputError for GPUs that cannot reach each other.
  explicit Router(Topology topology);

  // In a node: over NVLink where both have it, else PCIe. Between nodes: through the source's own
  // NIC, then over the shortest paths of the fabric as facts().routing deals them, then the
  // destination's NIC. Where no path joins those two NICs (two planes, a dead rail), another GPU of
  // the source's node, else of the destination's, passes the message on. Empty when from == to.
  [[nodiscard]] Route route(std::uint32_t from_gpu, std::uint32_t to_gpu,
                            RouteDetail detail = RouteDetail::EveryLink) const;
  // Returns a route that leaves the node through the NIC of the local GPU that has the
  // destination's index, reached over NVLink, so that the fabric is crossed on one rail (NCCL's
  // PXN). Equal to route() where the sender has no NVLink to that GPU.
  [[nodiscard]] Route route_rail_aligned(std::uint32_t from_gpu, std::uint32_t to_gpu,
                                         RouteDetail detail = RouteDetail::EveryLink) const;
  // How a copy travels from a GPU to the memory of the CPU nearest to it (least links; chip to
  // chip, or through PCIe switches), and back. Empty where no CPU is wired to the GPU.
  [[nodiscard]] Route route_to_host(std::uint32_t gpu) const { return nodes_.to_host(gpu); }
  [[nodiscard]] Route route_from_host(std::uint32_t gpu) const { return nodes_.from_host(gpu); }

  // The switches that a message on route() to another node passes: as many on all of its shortest
  // paths. Nothing where links count for several hops or NICs pass the traffic of others on, so
  // that only route() tells.
  [[nodiscard]] std::optional<std::uint32_t> switches_between(std::uint32_t from_gpu,
                                                              std::uint32_t to_gpu) const;
  // Links that carry the same and switches wired alike; all are alone where routing is not ideal.
  [[nodiscard]] const ParallelLinks& parallel_links() const { return parallel_links_; }

  // Where messages on route() cross the fabric. REQUIRES: GPUs of two nodes.
  [[nodiscard]] Crossing crossing(std::uint32_t from_gpu, std::uint32_t to_gpu) const;
  // Returns where messages on route_rail_aligned() cross it; nothing where that is route().
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
  [[nodiscard]] Route dealt_paths(Crossing ends, Route so_far) const;
  [[nodiscard]] std::shared_ptr<const Trunk> kept_trunk(const Arc& start,
                                                        std::uint32_t target) const;
  void append_trunk(Route& route, const Trunk& trunk, RouteDetail detail) const;

  Topology topology_;
  ParallelLinks parallel_links_;
  NodePaths nodes_;
  FabricPaths fabric_;
  FabricComponents components_;
  // Trunks that were searched, by place of the first switch and target.
  mutable std::unordered_map<std::uint64_t, std::shared_ptr<const Trunk>> trunks_;
  mutable std::size_t trunk_hops_ = 0;  // of all of them
  mutable std::mutex mutex_;            // of both
};

}  // namespace trainyard
