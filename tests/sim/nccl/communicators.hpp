// The machines of NCCL's worked numbers.
//
//    const Communicator comm = h100(4);     // 32 ranks on four nodes of eight
#pragma once

#include "sim/nccl/tuning.hpp"

namespace trainyard::nccl::testing {

inline NodeView a100_node(bool with_nics) {
  return switched_node({.gpus = 8,
                        .sm = 80,
                        .nvlink = 240.0,
                        .pcie = 24.0,
                        .nic = with_nics ? 25.0 : 0.0,
                        .per_switch = 2});
}
inline NodeView h100_node(bool with_nics) { return switched_node({.nic = with_nics ? 50.0 : 0.0}); }
inline NodeView b200_node(bool with_nics) {
  return switched_node({.sm = 100, .nvlink = 721.8, .nic = with_nics ? 50.0 : 0.0});
}

inline Communicator of_nodes(const NodeView& node, std::uint32_t nodes, const Options& options) {
  const auto ranks = static_cast<std::uint32_t>(node.gpus.size()) * nodes;
  return make_communicator({.node = node, .ranks = ranks, .nodes = nodes}, options);
}
inline Communicator a100(std::uint32_t nodes, const Options& options = {}) {
  return of_nodes(a100_node(nodes > 1), nodes, options);
}
inline Communicator h100(std::uint32_t nodes, const Options& options = {}) {
  return of_nodes(h100_node(nodes > 1), nodes, options);
}
inline Communicator b200(std::uint32_t nodes, const Options& options = {}) {
  return of_nodes(b200_node(nodes > 1), nodes, options);
}

}  // namespace trainyard::nccl::testing
