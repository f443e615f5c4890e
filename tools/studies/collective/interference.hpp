// Interference between groups: the time of each group alone, the time of all groups together, and
// the link that they share.
//
//    slow-down = together / alone
//
// All calls start at the same moment. Example: two rings whose GPUs share one NIC of 50 GB/s move
// at 25 GB/s each, so a call that is limited by bandwidth takes twice as long.
//
//    const InterferenceStudy study =
//        study_interference(cluster, {.groups = groups, .sizes = {1 << 26}});
//    study.rows[0].together_s / study.rows[0].alone_s;
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/collectives/profile/collective_profile.hpp"
#include "sim/nccl/options.hpp"
#include "tools/studies/collective/arguments.hpp"

namespace trainyard {

struct InterferenceQuestion {
  std::vector<CollectiveGroup> groups = {};  // a GPU may be in several
  std::vector<std::int64_t> sizes = {};      // for the groups that do not name a size
  std::string algorithm = "nccl";            // for the groups that do not name one
  DataType dtype = DataType::Fp32;
  std::string engine = "simgrid";
  nccl::Options nccl = {};
  const CollectiveProfile* profile = nullptr;  // as in CollectiveQuestion
  std::string profile_name = {};
};

// The busiest link that a group shares with another group.
struct SharedLink {
  std::string name = {};     // "nic_port: node 0 nic 3 -> leaf 3"
  std::uint32_t groups = 0;  // groups that use it
  double load = 0.0;         // bytes / (capacity * time until its last group ends), 0..1
};

// The result of one class of interchangeable groups at one size.
struct GroupRow {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::string algorithm = {};
  std::uint32_t groups = 1;               // number of groups in the class
  std::vector<std::uint32_t> ranks = {};  // of its first group
  std::int64_t bytes = 0;
  double alone_s = 0.0;
  double together_s = 0.0;
  std::optional<SharedLink> shared = {};

  [[nodiscard]] double slowdown() const { return together_s / alone_s; }
  [[nodiscard]] double busbw_alone() const;  // bytes/s
  [[nodiscard]] double busbw_together() const;
};

struct InterferenceStudy {
  std::vector<GroupRow> rows = {};  // by size, then by group
};

// Simulates the groups of the question at each size. REQUIRES: groups of two or more GPUs of the
// cluster (send_recv: exactly two), each GPU once in a group; an engine of the registry. Throws
// RunError if a group cannot use its algorithm, or if a GPU is in more than 250 groups.
[[nodiscard]] InterferenceStudy study_interference(const Cluster& cluster,
                                                   const InterferenceQuestion& question);

}  // namespace trainyard
