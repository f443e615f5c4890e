// Shares of a step for GPUs of different speed: the layers of each pipeline stage and the
// microbatches of each replica ("balance": "auto").
//
// A run with equal shares gives the time of a layer and of a microbatch on every stage of every
// replica, with all that slows them. Layers then go one by one to the stage that is done first with
// one more, and microbatches to the replica that is done first with one more, which minimises the
// largest time. The simulation decides between these shares and neighbours of them, because it
// knows what the estimate does not: bubbles, exposed communication, memory.
//
// Metis (Um et al., USENIX ATC 2024) and HetPipe (Park et al. 2020, arXiv 2005.14038) choose from
// the same shares: uneven layers by stage, uneven batches by replica.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "scenarios/simulate/simulate.hpp"

namespace trainyard {

// Divides `count` items so that the largest of shares[i] * seconds[i] + extra[i] is as small as it
// can be, with at least one item and at most most[i] for each i. Empty: the limits do not allow it.
// REQUIRES: lists of one length; seconds > 0.
[[nodiscard]] std::vector<std::int64_t> balanced_shares(std::int64_t count,
                                                        std::span<const double> seconds,
                                                        std::span<const double> extra,
                                                        std::span<const std::int64_t> most);

// Simulates the scenario with equal shares and with balanced ones, and returns the fastest run that
// fits into memory, whose facts say what equal shares would have cost. Shares that the scenario
// gives stay as they are. Splits by operator, interleaved stages and, for replicas, what
// replica_microbatches cannot be combined with keep equal shares.
[[nodiscard]] Result simulate_balanced(const Scenario& scenario,
                                       const std::function<Result(const Scenario&)>& simulate);

// Returns the scenario with the shares that were found in place of "balance": "auto".
[[nodiscard]] Scenario with_shares(Scenario scenario, const BalanceFacts& shares);

// Adds the shares, and what equal ones would have cost, to the facts of a run of such a scenario.
void add_balance(const BalanceFacts& shares, double step_s, RunFacts& facts);

}  // namespace trainyard
