// Small hand-made clusters and a ring model on them, so that folding is tested without the
// topologies and collective algorithms that are built on it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/cluster/blueprint.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/cluster/communication_model.hpp"

namespace trainyard::test {

struct HandCluster {
  std::uint32_t nodes = 1;
  std::uint32_t gpus_per_node = 4;
  std::uint32_t nodes_per_leaf = 4;
  std::uint32_t spines = 2;
  // Multiplies the capacity of a link between two named devices.
  std::map<std::pair<std::string, std::string>, double> speed = {};
};

// GPUs around an NVSwitch, a NIC for each GPU, NICs on leaves, leaves on all spines.
class HandClusterBuilder {
 public:
  explicit HandClusterBuilder(HandCluster shape) : shape_(std::move(shape)) {}

  Cluster build() {
    for (std::uint32_t spine = 0; spine < shape_.spines; ++spine) {
      spines_.push_back(
          device(DeviceKind::SpineSwitch, "spine " + std::to_string(spine), -1, spine));
    }
    for (std::uint32_t node = 0; node < shape_.nodes; ++node) add_node(node);
    const ClusterFacts facts{.name = "by hand",
                             .node = "hand",
                             .gpu = "hand",
                             .nodes = shape_.nodes,
                             .gpus_per_node = shape_.gpus_per_node,
                             .gpu_memory = Bytes{80e9},
                             .latency = {Seconds{5e-6}, Seconds{1e-6}, Seconds{4e-6}}};
    if (shape_.nodes == 1) nics_.clear();
    return {facts, std::move(blueprint_).wiring(), gpus_, nics_};
  }

 private:
  void add_node(std::uint32_t node) {
    const auto number = static_cast<std::int32_t>(node);
    const std::string name = "node " + std::to_string(node);
    if (node % shape_.nodes_per_leaf == 0) add_leaf(node / shape_.nodes_per_leaf);
    const DeviceId nvswitch = device(DeviceKind::NvSwitch, name + " nvswitch", number, 0);
    for (std::uint32_t i = 0; i < shape_.gpus_per_node; ++i) {
      const std::string place = std::to_string(i);
      gpus_.push_back(device(DeviceKind::Gpu, name + " gpu " + place, number, i));
      wire(gpus_.back(), nvswitch, LinkKind::NvLink, 300e9);
      if (shape_.nodes == 1) continue;
      nics_.push_back(device(DeviceKind::Nic, name + " nic " + place, number, i));
      wire(gpus_.back(), nics_.back(), LinkKind::Pcie, 64e9);
      wire(nics_.back(), leaf_, LinkKind::NicPort, 50e9);
    }
  }

  void add_leaf(std::uint32_t leaf) {
    if (shape_.nodes == 1) return;
    leaf_ = device(DeviceKind::LeafSwitch, "leaf " + std::to_string(leaf), -1, leaf);
    for (const DeviceId spine : spines_) wire(leaf_, spine, LinkKind::LeafSpine, 100e9);
  }

  DeviceId device(DeviceKind kind, const std::string& name, std::int32_t node,
                  std::uint32_t index) {
    const DeviceId id = blueprint_.add(
        {.kind = kind, .node = node, .index = static_cast<std::int32_t>(index)}, name);
    names_.push_back(name);
    return id;
  }

  void wire(DeviceId a, DeviceId b, LinkKind kind, double capacity) {
    for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
      const auto slow = shape_.speed.find({names_[from], names_[to]});
      const double factor = slow == shape_.speed.end() ? 1.0 : slow->second;
      blueprint_.link(from, to,
                      {.kind = kind,
                       .capacity = BytesPerSecond{capacity * factor},
                       .nominal = BytesPerSecond{capacity}});
    }
  }

  HandCluster shape_;
  Blueprint blueprint_;
  std::vector<std::string> names_;
  std::vector<DeviceId> gpus_;
  std::vector<DeviceId> nics_;
  std::vector<DeviceId> spines_;
  DeviceId leaf_ = 0;
};

inline Cluster hand_cluster(HandCluster shape) {
  return HandClusterBuilder(std::move(shape)).build();
}

// A communication model in which every collective is a ring in member order (all_to_all as well:
// only loads matter here), with 2(n-1)/n of the bytes for all_reduce and (n-1)/n for others.
// "two_rings" runs half of it backwards as a second flow, and "two_phases" has a reduce_scatter and
// an all_gather phase.
class RingModel final : public CommunicationModel {
 public:
  explicit RingModel(const Cluster& cluster) : cluster_(cluster) {}

  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const override {
    if (gpus.size() < 2) return {};
    const auto bytes = static_cast<double>(bytes_of(call));
    if (op_of(call) == CollectiveOp::SendRecv) {
      return {{Seconds{4e-6}, {link_flow({{gpus[0], gpus[1]}}, bytes)}}};
    }
    std::vector<std::pair<std::uint32_t, std::uint32_t>> forward;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> backward;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      forward.emplace_back(gpus[i], gpus[(i + 1) % gpus.size()]);
      backward.emplace_back(gpus[(i + 1) % gpus.size()], gpus[i]);
    }
    const auto n = static_cast<double>(gpus.size());
    const double rounds = op_of(call) == CollectiveOp::AllReduce ? 2.0 * (n - 1.0) : n - 1.0;
    const double sent = rounds / n * bytes;
    if (algorithm_of(call) == "two_rings") {
      return {
          {Seconds{1e-6 * rounds}, {link_flow(forward, sent / 2), link_flow(backward, sent / 2)}}};
    }
    if (algorithm_of(call) == "two_phases") {
      return {{Seconds{1e-6 * n}, {link_flow(forward, sent / 2)}},
              {Seconds{1e-6 * n}, {link_flow(forward, sent / 2)}}};
    }
    return {{Seconds{1e-6 * rounds}, {link_flow(forward, sent)}}};
  }

 private:
  [[nodiscard]] MultiLinkFlow link_flow(
      const std::vector<std::pair<std::uint32_t, std::uint32_t>>& hops, double bytes) const {
    std::map<LinkId, double> loads;
    for (const auto& [from, to] : hops) {
      for (const RouteHop& hop : cluster_.router().route(from, to))
        loads[hop.link] += bytes * hop.fraction;
    }
    MultiLinkFlow result;
    for (const auto& [link, load] : loads) result.loads.push_back({link, load});
    return result;
  }

  const Cluster& cluster_;
};

}  // namespace trainyard::test
