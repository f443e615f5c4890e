// How an InfiniBand fabric is laid out: which hosts it joins, which of them are nodes of a cluster,
// and on which tier each switch is. ib_cluster.hpp makes a cluster of it.
//
//    IbLayout layout = layout_of(fabric, {.nics = 8, .hosts_of_node = 1, .name_pattern = "dgx*"});
//    layout.tiers.leaves.size();   // switches with a cable to a NIC
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/import/ib_fabric.hpp"

namespace trainyard {

// A NIC: an HCA with one or more cables, each to a switch (a number in IbFabric::devices).
struct IbNic {
  std::string name = {};
  std::vector<std::pair<std::size_t, BytesPerSecond>> cables = {};
  [[nodiscard]] BytesPerSecond rate() const;  // of its cables together
};

// The HCAs whose names share their first words, in the order of their last word: "dgx01 mlx5_0" is
// the HCA mlx5_0 of the host dgx01.
struct IbHost {
  std::string name = {};
  std::vector<IbNic> nics = {};
};

// A node of the cluster: one host, or the hosts of an NVLink domain.
struct IbNode {
  std::vector<std::string> hosts = {};
  std::vector<IbNic> nics = {};
};

// Switches by their distance from the NICs, and the counts that the parameters of a fabric follow
// from. Ports are counted in cables of a NIC; a switch has at most as many.
struct IbTiers {
  std::map<std::size_t, int> level = {};  // 1: leaf; other switches than these are not used
  std::vector<std::size_t> leaves = {}, spines = {}, cores = {};
  std::uint32_t nics_of_leaf = 0;   // cables to NICs
  std::uint32_t nodes_of_leaf = 0;  // nodes with such a cable
  double uplinks = 0.0;             // of a leaf with the most NICs
  double spine_down = 0.0, spine_up = 0.0;
  double core_ports = 0.0;
  double peers = 0.0;              // of a leaf, to other leaves
  std::uint32_t switch_ports = 0;  // as the file says, without an odd port for management or SHARP
};

using IbSwitchPair = std::pair<std::size_t, std::size_t>;

struct IbLayout {
  std::vector<IbNode> nodes = {};
  std::map<IbSwitchPair, double> between = {};  // bytes per second between two switches
  IbTiers tiers = {};
  BytesPerSecond nic_rate = {};    // of most NICs
  BytesPerSecond cable_rate = {};  // of one of its cables
  bool one_rate = true;            // all NICs have it
  std::uint32_t nics_of_host = 0;
  std::vector<std::string> found = {};    // a sentence each
  std::vector<std::string> assumed = {};  // a sentence each
};

struct IbLayoutChoice {
  std::uint32_t nics = 8;           // that a host with GPUs usually has
  std::uint32_t hosts_of_node = 1;  // 18 of an NVL72
  std::string name_pattern = {};    // of hosts, as a shell matches names; empty: all
  std::optional<BytesPerSecond> unknown_rate = {};  // of cables whose speed the file does not tell
};

// Chooses the hosts with the usual number of NICs, or with the most frequent one where none has
// that many. The nodes of one pod, and within it those at the same leaves, are next to each other.
// Throws InputError where there are none, and for a cable without a speed.
[[nodiscard]] IbLayout layout_of(const IbFabric& fabric, const IbLayoutChoice& choice);

// Puts the nodes into the order of the names of their switches, as in fabrics without tiers.
void order_by_switch(const IbFabric& fabric, IbLayout& layout);

}  // namespace trainyard
