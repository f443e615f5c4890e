// Closed forms of redundancy give the probability that a job survives a failure: with replicas of
// checkpoints in memory, with spare nodes, with replicas of the model that a run can lose.
//
//    in_memory_survival(16, 2, 3);    // 0.8: 3 of 16 machines lost, each shard on 2 of them
//    poisson_shortage(7.76, 12);      // 0.053: more than 12 nodes in repair, 7.76 in the mean
#pragma once

#include <cstdint>

namespace trainyard::reliability {

// Probability that every shard of an in-memory checkpoint survives, where groups of m machines hold
// the same shards and k of n machines are lost: max(0, 1 - n C(n-m, k-m) / (m C(n, k))) (Wang et
// al. 2023, "GEMINI", SOSP, corollary 1). REQUIRES: replicas <= lost < 2 replicas.
[[nodiscard]] double in_memory_survival(std::int64_t machines, std::int64_t replicas,
                                        std::int64_t lost);

// Probability that no two neighbours are among k lost of p stages in a ring, where each stage can
// stand in for its neighbour: p/(p-k) C(p-k, k)/C(p, k) (the redundancy of Thorpe et al. 2023,
// "Bamboo", NSDI).
[[nodiscard]] double ring_survival(std::int64_t stages, std::int64_t lost);

// Spare nodes without work (cold), which replace failed ones; a failed node returns after a repair.
struct SparePool {
  std::int64_t nodes = 0;     // nodes that the job needs
  std::int64_t spares = 0;    // further nodes
  double failure_rate = 0.0;  // of one node at work
  double repair_rate = 0.0;   // of one repair
  std::int64_t crews = 0;     // repairs at the same time; 0: no limit
};
// Probability that more nodes than the spares are in repair, in the steady state of the birth-death
// chain of nodes in repair (the machine repairman with spares; Gross & Harris, "Fundamentals of
// Queueing Theory").
[[nodiscard]] double spare_shortage(const SparePool& pool);

// The same if failures go on at their full rate during a shortage: the nodes in repair are then
// Poisson with mean nodes x failure rate / repair rate, for any distribution of the repair times.
[[nodiscard]] double poisson_shortage(double mean_in_repair, std::int64_t spares);

// Probability that at least k of n parts work, each with the same probability (binomial).
[[nodiscard]] double at_least(std::int64_t needed, std::int64_t parts, double probability);

// Tokens per second after the loss of one of d replicas, over those before, if the global batch
// becomes smaller by one replica: (d - 1)/d.
[[nodiscard]] double rate_with_smaller_batch(std::int64_t replicas);

// The same if the remaining replicas share the microbatches of the lost one, in a 1F1B pipeline of
// p stages with m microbatches: (m + p - 1) / (ceil(m d/(d - 1)) + p - 1).
[[nodiscard]] double rate_with_same_batch(std::int64_t replicas, std::int64_t microbatches,
                                          std::int64_t stages);

// Time to wait for a node that costs as much work as training without a replica until the repair:
// repair / d.
[[nodiscard]] double equal_wait(double repair, std::int64_t replicas);

// Replicas of each shard group that SPARe takes for N groups: floor(log2 N + 0.833) (arXiv
// 2603.00357).
[[nodiscard]] std::int64_t spare_replicas(std::int64_t groups);

// Failures until one shard has lost all of its copies, in the mean, where each of N groups holds
// copies of r shards at random and no group returns: Gamma(1/r) N^(1 - 1/r) / r. Their number is
// Weibull distributed with shape r, since k failures destroy a shard with probability (k/N)^r. With
// N = 200 and r = 9: 105.1.
[[nodiscard]] double masked_failures(std::int64_t groups, std::int64_t copies);

// Failures per time of a fleet where a share of the nodes fails at `multiple` times the rate in
// addition to the common rate (the bad servers of AIReSim).
[[nodiscard]] double fleet_failure_rate(std::int64_t nodes, double rate, double bad_share,
                                        double multiple);

}  // namespace trainyard::reliability
