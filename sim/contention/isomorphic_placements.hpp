// Places of groups that are alike but for where they lie: every tensor group fills a node, every
// stage sends to the next over a NIC, leaves and spines, and each stage's replicas form a ring over
// nodes of their own.
//
// Two places have one number when they hold equally many GPUs in the same places of nodes alike,
// and what lies between their members is alike link by link: kind, capacity, latency, cables, how
// many links share alike, and which ways have which links in common. What a CommunicationModel
// answers for one of them is then its answer for the other with the links of the same order
// (communication_model.hpp), so it is asked once for all of them.
//
// A place is known for GPUs of one node, with the links of the node; for GPUs of nodes that a tree
// of switches joins (fabric_tree.hpp), with the links of their nodes and the sets of parallel links
// of the tree; and for a message between two nodes of any fabric, with the links of its way on the
// receiver's rail.
//
//   IsomorphicPlacements places(cluster);
//   places.of_group(gpus);   // of every tensor group the same number
//   const auto spot = places.spot_of(link);   // of the place at hand
//   places.hop_at(*spot, base);   // the link of its like, in the place with that base
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

  // Held by one of several threads while a place is at hand.
  [[nodiscard]] std::mutex& mutex() { return mutex_; }

  // The number of the place, which becomes the one at hand. Nothing for GPUs of several nodes where
  // no tree joins them.
  [[nodiscard]] std::optional<std::uint32_t> of_group(std::span<const std::uint32_t> gpus);
  // Nothing for GPUs of one node, and for a way that crosses a link twice.
  [[nodiscard]] std::optional<std::uint32_t> of_message(std::uint32_t from_gpu,
                                                        std::uint32_t to_gpu);

  // A link of a place told by where it lies there: the same in places of one number.
  struct Spot {
    enum class Part : std::uint8_t { Node, Up, Down, Way } part = Part::Node;
    std::uint32_t which = 0;   // number in the base
    std::uint32_t offset = 0;  // among the links of the node
  };
  // The spot in the place at hand, by the lowest link of a set of parallel links; nothing for links
  // elsewhere.
  [[nodiscard]] std::optional<Spot> spot_of(LinkId link) const;

  // Tells where the place at hand lies: its nodes and its switches, or the links of a way and
  // how many are alike. As long in all places of one number. Good until the next is asked for.
  [[nodiscard]] std::span<const std::uint32_t> base() const { return base_; }
  // The link at a spot of the place that lies there, and how many are alike. For several threads at
  // once: nothing is kept.
  [[nodiscard]] RouteHop hop_at(const Spot& spot, std::span<const std::uint32_t> base) const;

 private:
  // Things of the place at hand, numbered as they are first met.
  struct Met {
    std::vector<std::uint32_t> number;  // of each thing there is; kNone: not met
    std::vector<std::uint32_t> things;  // in the order of their numbers
    void forget();
    // Its number, and whether it was met before.
    std::pair<std::uint32_t, bool> meet(std::uint32_t thing);
  };

  // The devices of a node.
  struct Devices {
    DeviceId first = 0;
    std::uint32_t count = 0;
    bool in_a_row = true;  // as they are numbered
    // Returns the place of the next one.
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
  [[nodiscard]] bool stand_alike(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] std::pair<std::uint32_t, DeviceKind> end_of(DeviceId id, std::uint32_t node) const;
  void put_members(std::span<const std::uint32_t> gpus);
  [[nodiscard]] bool put_tree();
  void put_way_up(std::uint32_t at);
  void put_order(const Met& met);
  void put_standing(std::uint32_t gpu);
  void lay_base();
  [[nodiscard]] std::uint32_t named();
  [[nodiscard]] std::optional<Spot> spot_in_node(const Link& link) const;
  [[nodiscard]] std::optional<Spot> spot_of_set(const Link& link) const;

  const Cluster cluster_;
  std::mutex mutex_;
  FabricTree tree_;
  std::vector<std::uint32_t> place_of_device_;  // within its node
  std::vector<Devices> devices_;                // by node
  std::vector<std::size_t> first_link_;         // by node, in links_; and the end
  std::vector<LinkId> links_;                   // that start or end in a node, node by node
  std::vector<std::uint32_t> kind_of_node_;     // the lowest node that is alike
  std::unordered_map<std::vector<std::uint64_t>, std::uint32_t, ListHash> numbers_;
  // The state of the place at hand follows.
  std::vector<std::uint64_t> key_;
  Met nodes_;
  Met locals_;    // places within their nodes that members have
  Met switches_;  // of the tree
  std::uint32_t tops_ = 0;
  std::vector<RouteHop> way_;  // of a message
  std::vector<std::uint32_t> base_;
};

}  // namespace trainyard
