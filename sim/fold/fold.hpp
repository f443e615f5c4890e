// Folding: joins ranks, groups and links that are interchangeable by symmetry into classes
// (decisions D1 and D2).
//
// `fold` computes an equitable partition of the joint graph of ranks, groups, flows and links by
// colour refinement: members of a class see the same classes the same number of times. Max-min
// rates are then equal within a class at all times, and the simulation of one representative per
// class is exact. The solver uses the load of a flow class A on a link class K: the sum over all
// members of A of the load on any one link of K (= members(A) / members(K) times one member's total
// on K).
//
// With `drop_uncontended` only loads that can ever matter to another flow take part
// (sim/contention/link_limits.hpp). Links that can never fill, and links that a flow certainly has
// to itself, then do not distinguish ranks. The limits that they impose are in the flow's rate cap,
// so times are the same, and far fewer classes are needed: the rings of a step on a non-blocking
// fabric fold to one class per pipeline stage, wherever the groups are in the fabric. Such loads
// are still described, on classes of links that carry exactly the same, so that bytes are right on
// every single link. Weights with `contended` false are for reports, never for prices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/cluster/communication_model.hpp"
#include "sim/contention/link_limits.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct RankClass {
  RankId representative = 0;
  std::uint32_t members = 1;
  std::uint32_t program = 0;
};

// The members of one group that are in one rank class and use the same slot. They reach a call
// together, so a call is complete when every participant has reached it. `count` is for reports.
struct Participant {
  std::uint32_t rank_class = 0;
  std::uint16_t slot = 0;  // slot of the rank; the lowest where several name one group
  // 0: sender, 1: receiver, in groups that send. 0 in other groups, where group ranks are
  // interchangeable.
  std::uint32_t group_rank = 0;
  std::uint32_t count = 1;  // number of such members in one group
};

struct GroupClass {
  GroupId representative = 0;
  std::uint32_t members = 1;              // groups in the class
  std::vector<Participant> participants;  // sorted by (group rank, rank class, slot)
};

// The group class and the participant that a slot of a rank class belongs to.
struct SlotTarget {
  std::uint32_t group_class = kNone;  // kNone: the class's program never uses the slot
  std::uint32_t participant = kNone;  // index into GroupClass::participants
};

struct LinkClass {
  LinkId representative = 0;
  std::uint32_t members = 1;  // links in the class; unused links are in no class
};

// Flows that carry the same call in the same phase in interchangeable groups.
struct FlowClass {
  std::uint32_t group_class = 0;
  std::uint32_t call = 0;  // index into Workload::calls
  std::uint32_t phase = 0;
  std::uint32_t members = 1;          // flows in all groups of the class
  double payload_bytes = 0.0;         // on the most loaded link of one flow
  double rate_cap_bytes_per_s = 0.0;  // infinity: no cap
  // The cap without contention, for engines that have none. Set where rate_cap_bytes_per_s includes
  // the effect of other flows of the same phase (closed_phases.hpp).
  std::optional<double> rate_alone = {};
  // The load of all members together on any one link of a class, relative to payload_bytes.
  struct Weight {
    std::uint32_t link_class = 0;
    double weight = 1.0;
    double flow_load = 1.0;  // load of one flow on its most loaded link of the class, in payloads
    double bytes = 0.0;      // bytes of one flow, summed over its links of that class, on average
    bool contended = true;   // false: never priced, see above
  };
  std::vector<Weight> weights;  // sorted by link class
};

// One phase of a call of a group class, as engines run it.
struct FoldedPhase {
  double latency_s = 0.0;
  std::vector<std::uint32_t> flows;  // flow classes, all started together
};

struct Partition {
  std::vector<std::uint32_t> class_of_rank;
  std::vector<std::uint32_t> class_of_group;
  std::vector<std::uint32_t> class_of_link;  // kNone: no call uses the link
  std::vector<RankClass> ranks;
  std::vector<GroupClass> groups;
  std::vector<LinkClass> links;
  std::vector<FlowClass> flows;
  // By [rank class][slot].
  std::vector<std::vector<SlotTarget>> places;
  // By [group class][call]; empty where the class never makes the call.
  std::vector<std::vector<std::vector<FoldedPhase>>> phases;
};

struct FoldOptions {
  bool enabled = true;            // false: every rank, group and link is its own class
  bool drop_uncontended = false;  // true: loads that matter to no other flow are not priced
  FoldCache known = {};           // results of an earlier fold of this workload and cluster

  [[nodiscard]] ContentionOptions contention() const {
    return {.drop_uncontended = drop_uncontended, .known = known};
  }
};

// Returns the coarsest equitable partition. Deterministic: classes are numbered by their lowest
// member.
[[nodiscard]] Partition fold(const Cluster& cluster, const Workload& workload,
                             const CommunicationModel& communication, const FoldOptions& options);

// Returns the time of a flow that has its links for itself. An operation that takes longer than its
// call alone has waited for links.
//
//    T(flow) = payload / min(rate cap, min over its links of capacity / flow_load)
//    T(call) = sum over its phases of latency + max over the flows of the phase of T(flow)
//
// where flow_load is what the flow itself puts on the link, in payloads. Worked: 8 GB over links of
// 10 and 4 GB/s, the second crossed twice: 8 / min(10, 4 / 2) = 4 s.
[[nodiscard]] double flow_seconds_alone(const Cluster& cluster, const Partition& partition,
                                        const FlowClass& flow);

// Returns T(call) of a call (index into Workload::calls) of a group class. 0 where the class never
// makes the call.
[[nodiscard]] double call_seconds_alone(const Cluster& cluster, const Partition& partition,
                                        std::uint32_t group_class, std::uint32_t call);

}  // namespace trainyard
