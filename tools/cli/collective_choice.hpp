// What the command line of `trainyard collective` asks for, checked.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/studies/collective/interference.hpp"
#include "tools/studies/collective/measured.hpp"
#include "tools/studies/collective/study.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

// As typed; empty where it was not.
struct StudyChoice {
  std::string op;
  std::string cluster;
  std::string node = "dgx_h100";
  std::uint32_t nodes = 1;
  std::string fabric = "rail_optimized";
  std::string ranks;
  std::uint32_t ranks_per_node = 0;  // 0: all
  std::vector<std::string> groups, splits;
  std::vector<std::string> algorithms;
  std::string sizes;
  std::string type = "fp32";
  std::string engine = "simgrid";
  std::string nccl_version, nccl_algo, nccl_proto;
  std::optional<std::int64_t> nccl_channels_least, nccl_channels_most;
  std::string measured, profile;
  std::string json, csv, svg;
  bool plot = false;

  [[nodiscard]] bool asks_for_groups() const { return !groups.empty() || !splits.empty(); }
};

[[nodiscard]] ClusterSpec chosen_cluster(const StudyChoice& choice);

// The log or profile of --measured for the operation; nothing without that option.
[[nodiscard]] std::optional<MeasuredTimes> chosen_measured(const StudyChoice& choice);

// The profile of --profile; nullptr without that option.
[[nodiscard]] std::unique_ptr<CollectiveProfile> chosen_profile(const StudyChoice& choice);

// One group by several algorithms. `profile` may be nullptr and must outlive the study. All throw
// InputError.
[[nodiscard]] CollectiveQuestion chosen_question(const StudyChoice& choice, const Cluster& cluster,
                                                 const CollectiveProfile* profile,
                                                 const MeasuredTimes* measured);

// Several groups at once: one question for each algorithm.
[[nodiscard]] std::vector<InterferenceQuestion> chosen_groups(const StudyChoice& choice,
                                                              const Cluster& cluster,
                                                              const CollectiveProfile* profile);

}  // namespace trainyard
