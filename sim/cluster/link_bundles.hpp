// Links that carry the same whatever is sent: the uplinks of a leaf to the equal spines of its pod.
//
// Under ideal routing a switch deals what it gets to its shortest paths in equal shares per cable.
// So switches that are wired alike (the coarsest equitable partition of the fabric, with every
// switch that has endpoints in a class of its own) get alike and pass on alike, and links between
// two such classes always carry the same. One of a bundle can stand for all: where the others are
// full it is, so they add nothing to what limits a flow.
//
// Worked: a pod of 16 leaves, 16 spines and 16 cores to each spine has 16 bundles of 16 uplinks and
// one of 256 links to the cores, in place of 512 links; downwards the same.
//
//   const LinkBundles bundles = link_bundles(cluster);
//   bundles.of_link[l];   // the lowest of l's
#pragma once

#include <span>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/cluster/transport.hpp"

namespace trainyard {

struct LinkBundles {
  std::vector<LinkId> of_link;      // the lowest link of its bundle; itself where it is alone
  std::vector<DeviceId> of_device;  // the lowest switch wired like it; itself where it is alone
  std::vector<LinkId> together;     // all of bundles of two or more: by their lowest, ascending
};

// Links within a server and to endpoints are alone, and all of them are where routing is not ideal.
// Whether a transport really loads them alike is for its user to check: it may address a switch by
// name. Only the cluster's graph, links and facts are read.
[[nodiscard]] LinkBundles link_bundles(const Cluster& cluster);

// The same loads with every link of a bundle by itself: each link once, sorted, `alike` 1.
[[nodiscard]] std::vector<LinkLoad> every_link(const Cluster& cluster,
                                               std::span<const LinkLoad> loads);

}  // namespace trainyard
