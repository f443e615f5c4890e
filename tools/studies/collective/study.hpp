// One collective on one group of GPUs, with several algorithms and sizes: the time of each, its
// bandwidth in nccl-tests' terms, and the most loaded link.
//
//    algbw = S / t      busbw = algbw * factor(op, n)      (nccl-tests, doc/PERFORMANCE.md)
//
// S bytes are moved in t seconds on n ranks. The factor of an all_reduce is 2(n-1)/n. Example: 1
// GiB in 4.17 ms by a ring of 8 is an algbw of 257 GB/s and a busbw of 450 GB/s, the rate of an
// H100 on NVLink.
//
//    const CollectiveStudy study = study_collective(
//        cluster, {.gpus = {0, 1}, .algorithms = {"ring"}, .sizes = {1 << 30}});
//    study.algorithms[0].rows[0].time_s;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/collectives/profile/collective_profile.hpp"
#include "sim/nccl/options.hpp"
#include "sim/nccl/spread.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct CollectiveQuestion {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::vector<std::uint32_t> gpus = {};      // members by group rank; two or more
  std::vector<std::string> algorithms = {};  // names of study_algorithms(op), or files of the user
  std::vector<std::int64_t> sizes = {};      // nccl-tests' size, as in Call
  DataType dtype = DataType::Fp32;           // nccl-tests' default
  std::string engine = "simgrid";
  nccl::Options nccl = {};
  // If set, "nccl" takes its times from this profile (profiled_model.hpp). It must outlive the
  // study.
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
  double latency_s = 0.0;  // the part of the time in which no bytes move
  double algbw = 0.0;      // bytes/s
  double busbw = 0.0;
  std::optional<LoadedLink> link = {};
  std::string choice = {};  // of "nccl": "NVLS/Simple, 16 channels", "profile: f"; else empty
  // True if no link is full while bytes move: NCCL's protocol and channels limit the call.
  bool protocol_bound = false;
  // For "nccl" on a measured GPU, without a profile: how far calls on clusters that were not fitted
  // lie from their predicted time.
  std::optional<nccl::CallSpread> spread = {};
  // "latency" if the latency is at least half of the time (or no link is loaded), "protocol" if the
  // protocol limits the call, else the kind of the most loaded link.
  [[nodiscard]] std::string bottleneck() const;
};

struct AlgorithmStudy {
  std::string algorithm = {};
  std::vector<CollectiveRow> rows = {};  // by size, in the order of the question; empty if refused
  std::optional<std::string> refusal = {};  // why the group cannot use the algorithm
};

struct CollectiveStudy {
  CollectiveOp op = CollectiveOp::AllReduce;
  DataType dtype = DataType::Fp32;
  std::uint32_t ranks = 0;
  std::vector<std::int64_t> sizes = {};
  std::vector<AlgorithmStudy> algorithms = {};
};

// Every algorithm of the registry for the operation, and "nccl" as the last. "step", which is a
// part of a larger collective, is not included.
[[nodiscard]] std::vector<std::string> study_algorithms(CollectiveOp op);

// Simulates the question. An algorithm is folded once for every range of sizes over which its
// phases differ only in their bytes. REQUIRES: GPUs of the cluster, each once; algorithms that
// find_algorithm knows, or "nccl"; an engine of the registry.
[[nodiscard]] CollectiveStudy study_collective(const Cluster& cluster,
                                               const CollectiveQuestion& question);

}  // namespace trainyard
