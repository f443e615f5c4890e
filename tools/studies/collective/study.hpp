// One collective on one group of GPUs, by several algorithms and at several sizes: how long each
// takes, what bandwidth that is in nccl-tests' terms, and which link carries the most.
//
//   algbw = S / t      busbw = algbw * factor(op, n)      (nccl-tests, doc/PERFORMANCE.md)
//
// S bytes in t seconds on n ranks; the factor of an all_reduce is 2(n-1)/n. Worked: 1 GiB by a ring
// of 8 in 4.17 ms: 257 GB/s and 450 GB/s, what an H100 reaches on NVLink.
//
//   CollectiveStudy study = study_collective(cluster, {.gpus = {0, 1}, .algorithms = {"ring"},
//   ...}); study.algorithms[0].rows[0].time_s;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/collectives/profile/collective_profile.hpp"
#include "sim/nccl/options.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct CollectiveQuestion {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::vector<std::uint32_t> gpus = {};      // members by group rank; two or more
  std::vector<std::string> algorithms = {};  // names of study_algorithms(op), or users' files
  std::vector<std::int64_t> sizes = {};      // nccl-tests' size, as in Call
  DataType dtype = DataType::Fp32;           // nccl-tests' default
  std::string engine = "simgrid";
  nccl::Options nccl = {};
  // Where set, "nccl" takes its times from it (profiled_model.hpp); must outlive the study.
  const CollectiveProfile* profile = nullptr;
  std::string profile_name = {};
};

// The link whose capacity the call uses most.
struct LoadedLink {
  LinkKind kind = LinkKind::NvLink;
  double load = 0.0;  // bytes / (capacity * time of the call), 0..1
};

struct CollectiveRow {
  std::int64_t bytes = 0;
  double time_s = 0.0;
  double latency_s = 0.0;  // the part of it in which no bytes move
  double algbw = 0.0;      // bytes/s
  double busbw = 0.0;
  std::optional<LoadedLink> link = {};
  std::string choice = {};  // of "nccl": "NVLS/Simple, 16 channels", "profile: f"; else empty
  // No link is full while bytes move: NCCL's protocol and channels are what is slow.
  bool protocol_bound = false;
  // "latency" where that is at least half of the time, "protocol" where that binds, else the kind
  // of the most loaded link.
  [[nodiscard]] std::string bottleneck() const;
};

struct AlgorithmStudy {
  std::string algorithm = {};
  std::vector<CollectiveRow> rows = {};     // by size, as asked; empty where refused
  std::optional<std::string> refusal = {};  // why the group cannot use it
};

struct CollectiveStudy {
  CollectiveOp op = CollectiveOp::AllReduce;
  DataType dtype = DataType::Fp32;
  std::uint32_t ranks = 0;
  std::vector<std::int64_t> sizes = {};
  std::vector<AlgorithmStudy> algorithms = {};
};

// Every algorithm of the registry for the operation, and "nccl" at the end; not "step", which is
// part of a larger collective.
[[nodiscard]] std::vector<std::string> study_algorithms(CollectiveOp op);

// An algorithm is folded once for every range of sizes over which its phases are the same but for
// the bytes. REQUIRES: GPUs of the cluster, each once; algorithms that find_algorithm
// knows, or "nccl"; an engine of the registry.
[[nodiscard]] CollectiveStudy study_collective(const Cluster& cluster,
                                               const CollectiveQuestion& question);

}  // namespace trainyard
