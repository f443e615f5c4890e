// The options of a collective study as `trainyard collective` and the Python module take them, and
// the questions that they make. Messages name the options of the command.
//
//    const StudyOptions choice{.op = "all_reduce", .nodes = 2};
//    const auto cluster = shared_cluster(chosen_cluster(choice));
//    study_collective(*cluster, chosen_question(choice, *cluster, nullptr, nullptr));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/collectives/profile/collective_profile.hpp"
#include "tools/studies/collective/interference.hpp"
#include "tools/studies/collective/measured.hpp"
#include "tools/studies/collective/study.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

// An option that was not given is empty.
struct StudyOptions {
  std::string op = {};
  std::string cluster = {};  // a file
  std::string node = "dgx_h100";
  std::optional<std::uint32_t> nodes = {};  // else those of the file, or 1
  std::string fabric = "rail_optimized";
  std::string ranks = {};
  std::uint32_t ranks_per_node = 0;  // 0: all GPUs of each node
  std::vector<std::string> groups = {}, splits = {};
  std::vector<std::string> algorithms = {};
  std::string sizes = {};
  std::string type = "fp32";
  std::string engine = "simgrid";
  std::string nccl_version = {}, nccl_algo = {}, nccl_proto = {};
  std::optional<std::int64_t> nccl_channels_least = {}, nccl_channels_most = {};
  std::string measured = {}, profile = {};
};

// The cluster of the study: from a file, or nodes of one kind joined by a fabric. This function and
// those below throw InputError.
[[nodiscard]] ClusterSpec chosen_cluster(const StudyOptions& choice);

// The times of the operation in the log or profile of `measured`. There is no value without it.
[[nodiscard]] std::optional<MeasuredTimes> chosen_measured(const StudyOptions& choice);

// The collective profile of `profile`; nullptr without it.
[[nodiscard]] std::unique_ptr<CollectiveProfile> chosen_profile(const StudyOptions& choice);

// The study of one group with several algorithms. `profile` may be nullptr, and must outlive the
// study. With `measured` the group must have the shape that was measured.
[[nodiscard]] CollectiveQuestion chosen_question(const StudyOptions& choice, const Cluster& cluster,
                                                 const CollectiveProfile* profile,
                                                 const MeasuredTimes* measured);

// The study of several groups at the same time: one question for each algorithm.
[[nodiscard]] std::vector<InterferenceQuestion> chosen_groups(const StudyOptions& choice,
                                                              const Cluster& cluster,
                                                              const CollectiveProfile* profile);

}  // namespace trainyard
