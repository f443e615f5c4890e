// Several jobs on one cluster: the scenario of each, the GPUs that it gets, and when it starts.
//
//    {
//      "cluster": {"node": "dgx_h100", "nodes": 16, "fabric": {"kind": "leaf_spine"}},
//      "jobs": [
//        {"name": "a", "scenario": "llama3_8b.json", "placement": "packed"},
//        {"name": "b", "scenario": "llama3_8b.json", "placement": "spread", "start": "0.3 s"},
//        {"name": "reads", "gpus": 8, "priority": 0.5,
//         "traffic": {"pattern": "one_to_all", "bytes": "1 GiB", "every": "200 ms"}}
//      ]
//    }
//
//    const Jobs jobs = load_jobs("two_jobs.json", {});
//    jobs.all[1].placement.kind;   // PlacementKind::Spread
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/jobs/placement.hpp"
#include "scenarios/jobs/traffic.hpp"
#include "scenarios/reader/scenario.hpp"
#include "sim/base/units.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

// One job. It trains (a scenario), or it is background traffic.
struct JobSpec {
  std::string name = {};
  std::optional<Scenario> scenario = {};  // its cluster only says how many GPUs the job needs
  std::optional<TrafficSpec> traffic = {};
  std::uint32_t gpus = 0;
  PlacementSpec placement = {};
  Seconds start = {};
  std::optional<std::int64_t> steps = {};  // none: it runs as long as the others
  // The share of a full link that a flow of the job gets, relative to a flow of priority 1 (a
  // traffic class of a switch with weighted round-robin).
  double priority = 1.0;
};

struct Jobs {
  std::string file = {};  // for messages
  std::string description = {};
  std::string source = {};                    // where its settings come from
  std::vector<std::string> assumptions = {};  // settings that the source does not give
  ClusterSpec cluster = {};
  std::string engine = "simgrid";
  std::vector<JobSpec> all = {};
};

// Reads the file after the overrides ("jobs.0.start=0.2s"). Scenarios are looked up in the folder
// of the file, then as load_scenario() does. Throws InputError with all problems of the file, or
// with those of the first faulty scenario.
[[nodiscard]] Jobs load_jobs(const std::string& path, const std::vector<Override>& overrides);
// The same for a document in memory; messages use `name` as the file name.
[[nodiscard]] Jobs read_jobs_document(const std::string& name,
                                      const nlohmann::ordered_json& document,
                                      const std::vector<Override>& overrides = {});

// Returns the JSON Schema of such a file, for editors. The reader has precedence: a schema cannot
// express that the GPUs of a job are whole nodes.
[[nodiscard]] nlohmann::ordered_json jobs_schema();

}  // namespace trainyard
