// The interface that describes how a communication loads links: phases of multi-link flows.
//
// A collective runs its phases one after the other. A phase first takes its latency (steps times
// the latency of a step). Then it moves bytes on one or more concurrent flows, and ends when the
// last flow ends. A multi-link flow is lock-stepped: it is one flow over all its links, and its
// slowest link limits its rate, as in a real ring. Independent flows (sub-rings, rails) are
// separate flows.
//
// CommunicationModel is the interface between the engine, which works on links and bytes, and
// sim/collectives, which implements algorithms.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/units.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// The bytes on a link. `parallel_count` is the number of links that carry these bytes each: 1, or
// the size of the set of parallel links of which `link` is the lowest (as in RouteHop).
struct LinkLoad {
  LinkId link = 0;
  double bytes = 0.0;
  std::uint32_t parallel_count = 1;
};

// Expands every set of parallel links. The result has each link once, sorted, with
// `parallel_count` 1.
[[nodiscard]] std::vector<LinkLoad> every_link(const Cluster& cluster,
                                               std::span<const LinkLoad> loads);

struct MultiLinkFlow {
  // Each link (a single link, or the lowest of a set of parallel links) once; sorted by link.
  std::vector<LinkLoad> loads;
  double rate_cap_bytes_per_s = std::numeric_limits<double>::infinity();  // on its most loaded link
};

struct Phase {
  Seconds latency;
  std::vector<MultiLinkFlow> flows;
};

// The algorithm that a model selects for a call, for reports.
struct SelectedAlgorithm {
  std::string algorithm;       // a name of the registry, or the choice of a library ("NVLS")
  std::string protocol = {};   // "LL128"; empty: the model has no protocols
  std::uint32_t channels = 0;  // 0: the model has no channels
  std::string label = {};      // all of these: "nccl: NVLS/Simple, 16 channels"; "ring"
};

// A call that its algorithm cannot run on the placement of its group. `field` is the field of the
// scenario that selected the algorithm (empty: no scenario selected it).
struct RefusedCall : RunError {
  RefusedCall(const RunError& why, const Workload& workload, GroupId group, std::uint32_t call)
      : RunError(why), field(chosen_field(workload, group, workload.calls.at(call))) {}
  std::string field;
};

// The result depends on the placement of the group, not on the identity of the group. For
// isomorphic placements (isomorphic_placements.hpp) phases differ only in their links, so one
// result serves all of them.
class CommunicationModel {
 public:
  virtual ~CommunicationModel() = default;
  // Returns the phases of `call` on a group whose members run on `gpus` (indices into
  // Cluster::gpus(), in the order of group ranks). Empty for a group of one. For SendRecv the
  // message goes from gpus[0] to gpus[1].
  [[nodiscard]] virtual std::vector<Phase> phases(const Call& call,
                                                  std::span<const std::uint32_t> gpus) const = 0;
  // Returns the algorithm's name, and in addition the choices that the name leaves open.
  [[nodiscard]] virtual SelectedAlgorithm selected_algorithm(
      const Call& call, std::span<const std::uint32_t> /*gpus*/) const {
    const std::string name(algorithm_of(call));
    return {.algorithm = name, .label = name};
  }
  [[nodiscard]] std::string label(const Call& call, std::span<const std::uint32_t> gpus) const {
    return selected_algorithm(call, gpus).label;
  }
};

}  // namespace trainyard
