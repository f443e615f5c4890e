// Places of groups that are alike but for where they lie: every tensor group fills a node, every
// stage sends to the next over a NIC, a leaf and a NIC.
//
// Two places have one number when they hold equally many GPUs in the same places of nodes alike,
// and what lies between their members is alike link by link: kind, capacity, latency, cables, the
// share of a message it carries, how many links share alike. What a Transport answers for one of
// them is then its answer for the other with the links of the same order (transport.hpp), so it is
// asked once for all of them.
//
// A place is known for GPUs of one node, with the node's own links, and for a message between two
// nodes, with the links of its way on the receiver's rail.
//
//   AlikePlaces places(cluster);
//   places.of_node_mates(gpus)->number;   // of every tensor group the same
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/graph/cluster.hpp"
#include "sim/graph/joint_graph.hpp"

namespace trainyard {

class AlikePlaces {
 public:
  // REQUIRES: the cluster outlives it.
  explicit AlikePlaces(const Cluster& cluster);

  struct Place {
    std::uint32_t number = 0;
    std::span<const RouteHop> links;  // each once; until the next place is asked for
  };
  // Nothing for GPUs of several nodes.
  [[nodiscard]] std::optional<Place> of_node_mates(std::span<const std::uint32_t> gpus);
  // Nothing for GPUs of one node, and for a way that crosses a link twice.
  [[nodiscard]] std::optional<Place> of_message(std::uint32_t from_gpu, std::uint32_t to_gpu);

 private:
  void collect_node_links();
  void number_nodes();
  [[nodiscard]] std::span<const LinkId> links_of(std::uint32_t node) const;
  [[nodiscard]] bool are_alike(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] std::uint64_t hash_of(std::uint32_t node) const;
  void put_standing(std::uint32_t gpu);
  [[nodiscard]] Place named();

  const Cluster& cluster_;
  std::vector<std::uint32_t> place_of_device_;  // within its node
  std::vector<std::size_t> first_link_;         // by node, in links_; and the end
  std::vector<LinkId> links_;                   // that start in a node, node by node
  std::vector<std::uint32_t> kind_of_node_;     // the lowest node that is alike
  std::unordered_map<std::vector<std::uint64_t>, std::uint32_t, KeyHash> numbers_;
  std::vector<std::uint64_t> key_;  // of the place at hand
  std::vector<RouteHop> hops_;
};

}  // namespace trainyard
