// Several groups at once: what each takes alone, what all take together, and where they meet.
//
//   slow-down = together / alone
//
// All calls start at the same moment. Worked: two rings whose GPUs share one NIC of 50 GB/s move at
// 25 GB/s each, so a call that is all bandwidth takes twice as long.
//
//   InterferenceStudy study = study_interference(cluster, {.groups = groups, ...});
//   study.rows[0].together_s / study.rows[0].alone_s;
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
  std::vector<std::int64_t> sizes = {};      // of the groups that have none of their own
  std::string algorithm = "nccl";            // of the groups that name none
  DataType dtype = DataType::Fp32;
  std::string engine = "simgrid";
  nccl::Options nccl = {};
  const CollectiveProfile* profile = nullptr;  // as in CollectiveQuestion
  std::string profile_name = {};
};

// The busiest link that a group shares with another.
struct SharedLink {
  std::string name = {};     // "nic_port: node 0 nic 3 -> leaf 3"
  std::uint32_t groups = 0;  // that use it
  double load = 0.0;         // of its capacity while they run together, 0..1
};

// One size of groups in interchangeable places.
struct GroupRow {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::string algorithm = {};
  std::uint32_t groups = 1;               // so many of them
  std::vector<std::uint32_t> ranks = {};  // of the first
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

// REQUIRES: groups of two or more GPUs of the cluster (send_recv: of two), each once in a group;
// an engine of the registry. Throws RunError where a group cannot use its algorithm, and where a
// GPU is in more than 250 groups.
[[nodiscard]] InterferenceStudy study_interference(const Cluster& cluster,
                                                   const InterferenceQuestion& question);

}  // namespace trainyard
