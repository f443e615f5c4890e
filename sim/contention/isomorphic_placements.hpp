// Placements of groups that differ only in where they are: every tensor group fills a node, every
// stage sends to the next over a NIC, leaves and spines, and each stage's replicas form a ring over
// other nodes.
//
// Two placements have the same number when they hold equally many GPUs at the same positions of
// isomorphic nodes, and when the links between their members match one by one: kind, capacity,
// latency, cables, size of the set of parallel links, and which routes have which links in common.
// The phases that a CommunicationModel computes for one of them are then those of the other, with
// the links of the same position (communication_model.hpp). One query serves for all of them.
//
// A placement is defined in three cases: for GPUs of one node, with the links of the node; for GPUs
// of nodes that a tree of switches joins (fabric_tree.hpp), with the links of their nodes and the
// sets of parallel links of the tree; and for a message between two nodes of any fabric, with the
// links of its route on the receiver's rail.
//
//    IsomorphicPlacements places(cluster);
//    places.of_group(gpus);   // the same number for every tensor group
//    const auto spot = places.spot_of(link);   // in the present placement
//    places.hop_at(*spot, base);   // the corresponding link, in the placement with that base
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/base/mixed.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/contention/fabric_tree.hpp"

namespace trainyard {

class IsomorphicPlacements {
 public:
  explicit IsomorphicPlacements(Cluster cluster);

  // A thread holds it while it works with the present placement.
  [[nodiscard]] std::mutex& mutex() { return mutex_; }

  // Returns the number of the placement of these GPUs, which becomes the present placement. Returns
  // nothing for GPUs of several nodes that no tree joins.
  [[nodiscard]] std::optional<std::uint32_t> of_group(std::span<const std::uint32_t> gpus);
  // Returns the number of the placement of a message, which becomes the present placement. Returns
  // nothing for GPUs of one node, and for a route that crosses a link twice.
  [[nodiscard]] std::optional<std::uint32_t> of_message(std::uint32_t from_gpu,
                                                        std::uint32_t to_gpu);

  // The position of a link in a placement. Corresponding links of placements of the same number
  // have the same spot.
  struct Spot {
    enum class Part : std::uint8_t { Node, Up, Down, Way } part = Part::Node;
    std::uint32_t which = 0;   // index in the base
    std::uint32_t offset = 0;  // index among the links of the node
  };
  // The spot of a link in the present placement. A set of parallel links is named by its lowest
  // link. Returns nothing for links elsewhere.
  [[nodiscard]] std::optional<Spot> spot_of(LinkId link) const;

  // The base of the present placement: its nodes and its switches, or the links of a route and the
  // sizes of their sets. Placements of the same number have bases of the same length. Valid until
  // the next placement.
  [[nodiscard]] std::span<const std::uint32_t> base() const { return base_; }
  // The link at a spot of the placement with that base, and the size of its set of parallel links.
  // Several threads may call it: it changes nothing.
  [[nodiscard]] RouteHop hop_at(const Spot& spot, std::span<const std::uint32_t> base) const;

 private:
  // Objects of the present placement, numbered in the order of first use.
  struct Met {
    std::vector<std::uint32_t> number;  // by object; kNone: not used yet
    std::vector<std::uint32_t> things;  // objects, in the order of their numbers
    void forget();
    // Returns the object's number, and whether it was used before.
    std::pair<std::uint32_t, bool> meet(std::uint32_t thing);
  };

  // The devices of a node.
  struct Devices {
    DeviceId first = 0;
    std::uint32_t count = 0;
    bool in_a_row = true;  // they have consecutive numbers
    // Returns the index of the next device.
    std::uint32_t add(DeviceId id) {
      if (count == 0) first = id;
      in_a_row = in_a_row && id == first + count;
      return count++;
    }
  };
  struct Kind;

  void collect_node_links();
  void for_each_arriving(const auto& use) const;
  void number_nodes();
  [[nodiscard]] std::span<const LinkId> links_of(std::uint32_t node) const;
  [[nodiscard]] std::vector<std::uint32_t> wires_of(std::uint32_t node) const;
  [[nodiscard]] std::vector<std::uint32_t> offsets_of(std::uint32_t node) const;
  [[nodiscard]] Kind kind_of(std::uint32_t node, std::vector<std::uint32_t> wires) const;
  [[nodiscard]] bool is_joined_like(const Kind& kind, std::uint32_t node) const;
  [[nodiscard]] bool same_gpu_positions(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] std::pair<std::uint32_t, DeviceKind> end_of(DeviceId id, std::uint32_t node) const;
  void put_members(std::span<const std::uint32_t> gpus);
  [[nodiscard]] bool put_tree();
  void put_way_up(std::uint32_t at);
  void put_order(const Met& met);
  void add_gpu_to_key(std::uint32_t gpu);
  void lay_base();
  [[nodiscard]] std::uint32_t named();
  [[nodiscard]] std::optional<Spot> spot_in_node(const Link& link) const;
  [[nodiscard]] std::optional<Spot> spot_of_set(const Link& link) const;

  const Cluster cluster_;
  std::mutex mutex_;
  FabricTree tree_;
  std::vector<std::uint32_t> place_of_device_;  // index within its node
  std::vector<Devices> devices_;                // indexed by node
  std::vector<std::size_t> first_link_;  // by node: index in links_; the last entry is the end
  // Links that start or end in a node, node by node.
  std::vector<LinkId> links_;
  std::vector<std::uint32_t> kind_of_node_;  // the lowest isomorphic node
  std::unordered_map<std::vector<std::uint64_t>, std::uint32_t, ListHash> numbers_;
  // The present placement. Its key is the canonical form: equal keys mean isomorphic placements.
  std::vector<std::uint64_t> key_;
  Met nodes_;
  Met locals_;    // local indices that members have in their nodes
  Met switches_;  // switches of the tree
  std::uint32_t tops_ = 0;
  std::vector<RouteHop> way_;  // route of a message
  std::vector<std::uint32_t> base_;
};

}  // namespace trainyard
