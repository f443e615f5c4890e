// Small hand-made clusters with links that no two GPUs share, so that closed forms hold exactly.
//
//    const Cluster cluster = star(8);  // 8 GPUs on a switch, 100 GB/s per direction, 5 us per step
//    const Cluster nodes = make_cluster({.nodes = 4, .gpus = 8});
//    double t = time_of(cluster, phases);
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "sim/cluster/blueprint.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/cluster/parallel_links.hpp"
#include "sim/collectives/collective.hpp"

namespace trainyard::testing {

inline constexpr double kGibibyte = 1073741824.0;

struct Shape {
  std::uint32_t nodes = 1;
  std::uint32_t gpus = 8;  // per node
  bool mesh = false;       // GPUs wired to each other instead of to a switch
  double nvlink = 1e11;    // from a GPU to the switch, or over one wire of a mesh
  double nic = 1e11;
  double launch_us = 0.0;
  double intra_us = 5.0;
  double inter_us = 5.0;
  std::uint32_t nodes_per_leaf = 0;  // 0: one leaf for all; else leaves under one spine
  double trunk = 1e11;               // from a leaf to the spine
  bool reduces = false;              // its leaf can reduce
};

class Builder {
 public:
  explicit Builder(const Shape& shape) : shape_(shape) {}
  Cluster build() {
    leaf_ = add(DeviceKind::LeafSwitch, -1, 0);
    const DeviceId spine =
        shape_.nodes_per_leaf > 0 ? add(DeviceKind::SpineSwitch, -1, 0) : DeviceId{};
    for (std::uint32_t node = 0; node < shape_.nodes; ++node) {
      if (shape_.nodes_per_leaf > 0 && node % shape_.nodes_per_leaf == 0) {
        if (node > 0) leaf_ = add(DeviceKind::LeafSwitch, -1, node / shape_.nodes_per_leaf);
        wire(leaf_, spine, LinkKind::LeafSpine, shape_.trunk);
      }
      add_node(static_cast<std::int32_t>(node));
    }
    ClusterFacts facts;
    facts.name = "made by hand";
    facts.nodes = shape_.nodes;
    facts.gpus_per_node = shape_.gpus;
    facts.fabric_reduces = shape_.reduces;
    facts.latency = {.launch = Seconds{shape_.launch_us * 1e-6},
                     .intra_step = Seconds{shape_.intra_us * 1e-6},
                     .inter_step = Seconds{shape_.inter_us * 1e-6}};
    return Cluster(facts, std::move(blueprint_).wiring(), gpus_, nics_);
  }

 private:
  DeviceId add(DeviceKind kind, std::int32_t node, std::uint32_t index) {
    return blueprint_.add({.kind = kind, .node = node, .index = static_cast<std::int32_t>(index)});
  }
  void wire(DeviceId a, DeviceId b, LinkKind kind, double rate) {
    blueprint_.cable(
        a, b, {.kind = kind, .capacity = BytesPerSecond{rate}, .nominal = BytesPerSecond{rate}});
  }
  void add_node(std::int32_t node) {
    std::vector<DeviceId> local;
    for (std::uint32_t i = 0; i < shape_.gpus; ++i) local.push_back(add(DeviceKind::Gpu, node, i));
    gpus_.insert(gpus_.end(), local.begin(), local.end());
    for (std::uint32_t i = 0; i < shape_.gpus; ++i) {
      nics_.push_back(add(DeviceKind::Nic, node, i));
      wire(local[i], nics_.back(), LinkKind::Pcie, 1e15);
      wire(nics_.back(), leaf_, LinkKind::NicPort, shape_.nic);
    }
    if (shape_.mesh) {
      for (std::uint32_t i = 0; i < shape_.gpus; ++i)
        for (std::uint32_t j = i + 1; j < shape_.gpus; ++j)
          wire(local[i], local[j], LinkKind::NvLink, shape_.nvlink);
      return;
    }
    const DeviceId hub = add(DeviceKind::NvSwitch, node, 0);
    for (const DeviceId gpu : local) wire(gpu, hub, LinkKind::NvLink, shape_.nvlink);
  }

  Shape shape_;
  Blueprint blueprint_;
  DeviceId leaf_ = 0;
  std::vector<DeviceId> gpus_;
  std::vector<DeviceId> nics_;
};

inline Cluster make_cluster(const Shape& shape) { return Builder(shape).build(); }
// Four nodes of eight H100s with a NIC each, as in the oracles.
inline Cluster four_nodes(double latency_scale = 1.0) {
  return make_cluster({.nodes = 4,
                       .gpus = 8,
                       .nvlink = 370.8e9,
                       .nic = 48.5e9,
                       .intra_us = latency_scale * 4.0,
                       .inter_us = latency_scale * 14.0});
}
inline Cluster star(std::uint32_t gpus) { return make_cluster({.nodes = 1, .gpus = gpus}); }

// GPUs 0..count-1, or every stride-th.
inline std::vector<std::uint32_t> gpus_of(std::uint32_t count, std::uint32_t stride = 1) {
  std::vector<std::uint32_t> gpus(count);
  for (std::uint32_t i = 0; i < count; ++i) gpus[i] = i * stride;
  return gpus;
}

// The bytes that the phases put on every link, by link.
inline std::vector<double> bytes_on_links(const Cluster& cluster,
                                          const std::vector<Phase>& phases) {
  std::vector<double> bytes(cluster.links().size(), 0.0);
  for (const Phase& phase : phases)
    for (const MultiLinkFlow& link_flow : phase.flows)
      for (const LinkLoad& load : every_link(cluster, link_flow.loads))
        bytes[load.link] += load.bytes;
  return bytes;
}

// The seconds of the phases if nothing else runs: the latency of each and its most loaded link. It
// is exact if the flows of a phase are equal, as in these clusters.
inline double time_of(const Cluster& cluster, const std::vector<Phase>& phases) {
  double time = 0.0;
  for (const Phase& phase : phases) {
    const std::vector<double> bytes = bytes_on_links(cluster, {phase});
    double slowest = 0.0;
    for (const Link& link : cluster.links())
      slowest = std::max(slowest, bytes[link.id] / link.capacity.value());
    time += phase.latency.value() + slowest;
  }
  return time;
}

// The microseconds of a registered algorithm.
inline double microseconds(const Cluster& cluster, CollectiveOp op, std::string_view name,
                           const std::vector<std::uint32_t>& gpus, double bytes) {
  const CollectiveAlgorithm* algorithm = find_algorithm(op, name);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  return 1e6 * time_of(cluster, algorithm->phases(placed, Bytes{bytes}));
}

inline double relative_error(double value, double wanted) {
  return std::abs(value - wanted) / std::abs(wanted);
}

// EXPECT_RELATIVE(t, 9430.240960): equal to 1e-9 of the expected value. For an oracle of fewer
// digits, tests allow half a unit of its last digit instead.
#define EXPECT_RELATIVE(value, wanted) EXPECT_NEAR(value, wanted, 1e-9 * std::abs(wanted))

}  // namespace trainyard::testing
