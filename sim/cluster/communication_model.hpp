// How a communication loads the fabric: phases of multi-link flows.
//
// A collective runs its phases one after the other. A phase first takes its latency (steps times
// the latency of a step), then moves bytes on one or more flows at once and ends when the last
// flow has ended. A multi-link flow is lock-stepped: it is one flow over all its links at once and
// advances at the pace of the slowest, as a real ring does. Independent flows (sub-rings, rails)
// are separate.
//
// CommunicationModel is the seam between the engine, which knows links and bytes, and
// sim/collectives, which knows algorithms.
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

// `alike` links carry so much each: the one, or the set of parallel links of which it is the lowest
// (as RouteHop).
struct LinkLoad {
  LinkId link = 0;
  double bytes = 0.0;
  std::uint32_t alike = 1;
};

// Returns the same loads with every link of a set of parallel links by itself: each link once,
// sorted, `alike` 1.
[[nodiscard]] std::vector<LinkLoad> every_link(const Cluster& cluster,
                                               std::span<const LinkLoad> loads);

struct MultiLinkFlow {
  // Each link (alone, and as the lowest of parallel links) once; sorted by link.
  std::vector<LinkLoad> loads;
  double rate_cap_bytes_per_s = std::numeric_limits<double>::infinity();  // of the most loaded link
};

struct Phase {
  Seconds latency;
  std::vector<MultiLinkFlow> flows;
};

// The algorithm that carries a call, for reports.
struct SelectedAlgorithm {
  std::string algorithm;       // a name of the registry, or what a library chose ("NVLS")
  std::string protocol = {};   // "LL128"; empty: the model has none
  std::uint32_t channels = 0;  // 0: the model has none
  std::string label = {};      // all of it: "nccl: NVLS/Simple, 16 channels"; "ring"
};

// A call that its algorithm cannot carry in the place of its group, and the field of the scenario
// that chose the algorithm (empty: no scenario did).
struct RefusedCall : RunError {
  RefusedCall(const RunError& why, const Workload& workload, GroupId group, std::uint32_t call)
      : RunError(why), field(chosen_field(workload, group, workload.calls.at(call))) {}
  std::string field;
};

// The answer depends on where the group stands and not on its name: in places alike
// (isomorphic_placements.hpp) phases differ in the links alone, and one answer serves for all of
// them.
class CommunicationModel {
 public:
  virtual ~CommunicationModel() = default;
  // The phases of `call` on a group whose members run on `gpus` (indices into Cluster::gpus(), in
  // group rank order). Empty for a group of one. For SendRecv the message goes from gpus[0] to
  // gpus[1].
  [[nodiscard]] virtual std::vector<Phase> phases(const Call& call,
                                                  std::span<const std::uint32_t> gpus) const = 0;
  // The algorithm's name, and what was chosen where the name leaves a choice.
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
