// Explains why ranks are not in one class: for each class, the earlier class that is most similar
// to it, and the first difference between the two.
//
// Ranks of different programs part at once. Ranks of one program part in a round of the colour
// refinement, because a neighbour (a group, then a flow, then a link) has parted in the round
// before. The path follows such neighbours to two that differ by themselves: a slower link, a
// longer way through the fabric, a group of another size.
//
//    const FoldOptions options{.drop_uncontended = true};
//    const Partition partition = fold(cluster, workload, communication, options);
//    for (const ClassReason& reason :
//         fold_reasons(cluster, workload, communication, options, partition))
//      use(reason.rank_class, reason.difference.because);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/cluster/communication_model.hpp"
#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// The kind of difference.
enum class DifferenceCause : std::uint8_t {
  First,          // the first class has no earlier class
  Gpu,            // another kind of GPU
  Program,        // other operations
  Group,          // a group of another kind or size, or used in another way
  Calls,          // a group that makes other calls
  Latency,        // a call of another latency: a longer way
  MultiLinkFlow,  // bytes of a flow, or the rate that its exclusive links allow
  Link,           // the capacity or the kind of a link
  Count,          // more or fewer neighbours of one kind
};
[[nodiscard]] std::string_view to_string(DifferenceCause cause);

struct PartingWord {
  DifferenceCause cause = DifferenceCause::First;
  std::string because = {};
};

// One pair of neighbours on the path from two ranks to the difference, as text: {"data group", "0,
// 8, 16, 24", "4, 12, 20, 28"}, {"link", "node 0 nic 3 -> leaf 0", "..."}.
struct DifferenceStep {
  std::string kind;
  std::string here;
  std::string there;
};

struct ClassReason {
  std::uint32_t rank_class = 0;
  std::uint32_t unlike = kNone;           // the earlier class; kNone for the first
  std::vector<DifferenceStep> path = {};  // from the two ranks to the difference
  PartingWord difference = {};            // "25 GB/s, not 50 GB/s"; empty for the first
};

// Returns one reason for each class of the partition, in order. The refinement runs once more, with
// its history. REQUIRES: `partition` is fold(cluster, workload, communication, options),
// options.enabled.
[[nodiscard]] std::vector<ClassReason> fold_reasons(const Cluster& cluster,
                                                    const Workload& workload,
                                                    const CommunicationModel& communication,
                                                    const FoldOptions& options,
                                                    const Partition& partition);

}  // namespace trainyard
