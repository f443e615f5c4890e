// Token routing: the number of routed tokens of every expert of a layer, the number that each rank
// processes, and the number that each rank sends to each other rank.
//
//    const ExpertRouting routing(plan);
//    ExpertRows rows = routing.of({.layer = 3, .microbatch = 0, .place = 2});
//    rows.received;   // of each local expert of EP rank 2
//
// A routed token (a row of the expert's GEMM) is one token at one of its experts. Every rank of an
// expert group routes the same number of tokens and draws the same shares, so the load of a layer
// is one vector over the experts. A token goes to an expert at most once, so an expert gets from a
// rank at most the number of its tokens. Tensor ranks that hold the same tokens send the routed
// tokens of one share each.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/plan.hpp"

namespace trainyard {

struct RoutingQuery {
  std::int64_t layer = 0;
  std::int64_t microbatch = 0;
  std::int64_t replica = 0;  // of the experts; used where replicas draw separate shares
  std::int64_t place = 0;    // EP rank, among the `expert` ranks that the experts are divided over
};

struct ExpertRows {
  // Routed tokens of each expert of the EP rank, from all ranks of its group and of its tensor
  // group.
  std::vector<std::int64_t> received = {};
  std::int64_t sent = 0;  // of one rank's tokens, including those for its own experts

  [[nodiscard]] std::int64_t total() const;
};

// Token counts by expert, as recorded in training: {"source": ..., "counts": [[...], ...]}, one
// list for each layer with experts in the order of the model. Several such tables ("counts":
// [[[...], ...], ...]) are used cyclically for the microbatches. Only the proportions matter.
struct ExpertCounts {
  std::vector<std::vector<std::vector<double>>> tables = {};  // [microbatch][moe layer][expert]
};
// Throws InputError if the number of layers or experts differs from the model, or if a list is all
// zeros.
[[nodiscard]] ExpertCounts read_expert_counts(const std::string& file,
                                              const Architecture& architecture);

// Distributes `total` routed tokens in proportion to the shares, with at most `most` for one
// expert; the excess goes to the others. Largest remainders decide the last tokens, the lower index
// first. The sum is exactly min(total, most * shares.size()).
[[nodiscard]] std::vector<std::int64_t> apportion(std::span<const double> shares,
                                                  std::int64_t total, std::int64_t most);

// Draws and caches the loads of a plan. It is not thread-safe, because it caches them.
class ExpertRouting {
 public:
  // REQUIRES: the plan has experts and its ranks divide. Throws InputError for a file of counts.
  explicit ExpertRouting(const TrainingPlan& plan);

  // True if all ranks get the same loads, so that one program serves a stage.
  [[nodiscard]] bool balanced() const;
  // True if every replica has separate shares.
  [[nodiscard]] bool by_replica() const;
  // True if every microbatch has separate shares.
  [[nodiscard]] bool by_microbatch() const;
  [[nodiscard]] ExpertRows of(const RoutingQuery& query) const;
  // Routed tokens that the ranks of a group send to each other, [from * expert + to]. It is one
  // matrix for all EP ranks. Empty: all entries are equal.
  [[nodiscard]] std::vector<std::int64_t> between(const RoutingQuery& query) const;
  // The fields of a query that the loads depend on, without the EP rank.
  using RowsKey = std::array<std::int64_t, 3>;
  [[nodiscard]] RowsKey key_of(const RoutingQuery& query) const;
  // Routed tokens that one rank sends to each expert, with the capacity applied.
  [[nodiscard]] std::vector<std::int64_t> rows_by_expert(const RoutingQuery& query) const;
  // Largest number of routed tokens that an expert accepts from one rank; 0: no limit.
  [[nodiscard]] std::int64_t capacity() const;

 private:
  // The reference is valid until the next call.
  [[nodiscard]] const std::vector<std::int64_t>& remembered(const RoutingQuery& query) const;
  [[nodiscard]] std::vector<std::int64_t> dealt(const RoutingQuery& query) const;
  [[nodiscard]] std::vector<double> shares(const RoutingQuery& query) const;
  [[nodiscard]] ExpertRows balanced_rows() const;

  const TrainingPlan& plan_;
  std::int64_t tokens_ = 0;  // of one rank and one microbatch
  ExpertCounts counts_;
  // Cache: every EP rank of a group needs the same loads, in forward and backward.
  mutable std::map<RowsKey, std::vector<std::int64_t>> rows_;
};

}  // namespace trainyard
