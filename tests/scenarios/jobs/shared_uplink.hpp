// Two equal jobs whose gradients cross one uplink: the case of which the closed form is known.
//
// Four nodes of one GPU, two under each leaf, and each leaf has one uplink of the rate of a NIC.
// Job a runs on nodes 0 and 2, job b on nodes 1 and 3. A step computes for C and then sums its
// gradients in one ring for D, without latency, so that the uplink carries two jobs at half the
// rate.
#pragma once

#include <nlohmann/json.hpp>

#include "scenarios/jobs/simulate_jobs.hpp"
#include "sim/base/json_parse.hpp"
#include "tests/scenarios/sample.hpp"

namespace trainyard {

inline nlohmann::ordered_json tiny_job() {
  return parse_unchecked_json(R"({
    "defaults": "ideal", "interference": false,
    "model": { "name": "tiny", "layers": 2, "hidden": 1024, "heads": 8, "ffn": 4096, "vocab": 8192,
               "max_positions": 1024, "gated_ffn": false },
    "parallelism": { "data": 2, "overlap_grad_reduce": false },
    "collectives": { "data": { "all_reduce": "ring" }, "other": { "all_reduce": "ring" } },
    "training": { "sequence_length": 1024, "micro_batch_size": 1, "global_batch_size": 2 }
  })");
}

// `nic`: the rate of a NIC and of the uplink.
inline nlohmann::ordered_json shared_uplink(const std::string& nic = "100 GB/s") {
  auto document = parse_unchecked_json(R"({
    "description": "two jobs on one uplink",
    "cluster": {
      "node": {
        "name": "one_gpu", "source": "made up: round figures", "gpu": "a100_80gb", "gpus": 1,
        "gpu_memory": { "usable": "80 GiB" }, "scale_up": { "kind": "none" },
        "pcie": { "gpus_per_switch": 1, "usable": "900 GB/s", "latency": "0 s" },
        "cpu": { "gpus_per_cpu": 1, "cpus_per_host": 1, "usable": "900 GB/s" },
        "nic": { "count": 1, "latency": "0 s" },
        "collective_latency": { "launch": "0 s", "intra_step": "0 s", "inter_step": "0 s" }
      },
      "nodes": 4,
      "fabric": { "kind": "fat_tree", "radix": 3, "oversubscription": 2, "hop_latency": "0 s" }
    },
    "jobs": [ { "name": "a", "gpus": 2, "placement": { "nodes": [0, 2] } },
              { "name": "b", "gpus": 2, "placement": { "nodes": [1, 3] } } ]
  })");
  document["cluster"]["node"]["nic"]["usable"] = nic;
  for (auto& job : document["jobs"]) job["scenario"] = tiny_job();
  return document;
}

inline Jobs jobs_of(const nlohmann::ordered_json& document,
                    const std::vector<Override>& changes = {}) {
  const TemporaryFolder folder;
  return load_jobs(folder.write("jobs.json", document.dump()), changes);
}

inline JobsResult simulated(const nlohmann::ordered_json& document,
                            const JobsOptions& options = {}) {
  return simulate_jobs(jobs_of(document), options);
}

// The problems without the name of the file, one per line.
inline std::string complaints_of_jobs(const nlohmann::ordered_json& document) {
  try {
    (void)simulated(document);
    return "";
  } catch (const InputError& error) {
    std::string text;
    for (Problem problem : error.problems()) {
      problem.file.clear();
      text += (text.empty() ? "" : "\n") + to_text(problem);
    }
    return text;
  }
}

}  // namespace trainyard
