// Who gets which tokens: rows for every expert of a layer, and from them the rows each rank works
// on and what each rank sends each other one.
//
//   const ExpertRouting routing(plan);
//   ExpertRows rows = routing.of({.layer = 3, .microbatch = 0, .place = 2});
//   rows.received;   // of each local expert of place 2
//
// A row is one token at one of the experts it goes to. Every rank of an expert group routes as many
// tokens and draws the same shares, so a layer's load is one vector over the experts. A token goes
// to an expert at most once, so none gets more rows of a rank than that has tokens. Tensor ranks
// that hold the same tokens send the rows of a share of them each.
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
  std::int64_t replica = 0;  // of the experts; counts where replicas draw their own shares
  std::int64_t place = 0;    // among the `expert` places that the experts are divided over
};

struct ExpertRows {
  // Rows of each expert at the place, from all ranks of its group and of its tensor group.
  std::vector<std::int64_t> received = {};
  std::int64_t sent = 0;  // of one rank's tokens, its own experts' included

  [[nodiscard]] std::int64_t total() const;
};

// Counts of tokens by expert, as recorded in training: {"source": ..., "counts": [[...], ...]}, one
// list for each layer with experts in the model's order, or several such tables in turn for the
// microbatches ("counts": [[[...], ...], ...]). Only their proportions matter.
struct ExpertCounts {
  std::vector<std::vector<std::vector<double>>> tables = {};  // [microbatch][moe layer][expert]
};
// Throws InputError: another number of layers or experts than the model has, nothing but zeros.
[[nodiscard]] ExpertCounts read_expert_counts(const std::string& file,
                                              const Architecture& architecture);

// `total` rows dealt in proportion to the shares, at most `most` to one; what no longer fits goes
// to the others. Largest remainders decide the last rows, the lower index first. The sum is exactly
// min(total, most * shares.size()).
[[nodiscard]] std::vector<std::int64_t> apportion(std::span<const double> shares,
                                                  std::int64_t total, std::int64_t most);

// Not for several threads at once: it remembers what it dealt.
class ExpertRouting {
 public:
  // REQUIRES: the plan has experts and its ranks divide. Throws InputError for a file of counts.
  explicit ExpertRouting(const TrainingPlan& plan);

  // All ranks get the same rows: one program serves a stage.
  [[nodiscard]] bool balanced() const;
  // Every replica has its own shares.
  [[nodiscard]] bool by_replica() const;
  // Every microbatch has its own shares.
  [[nodiscard]] bool by_microbatch() const;
  [[nodiscard]] ExpertRows of(const RoutingQuery& query) const;
  // Rows that the ranks of a group send each other, [from * expert + to]; empty: all alike. It is
  // one matrix for all places.
  [[nodiscard]] std::vector<std::int64_t> between(const RoutingQuery& query) const;
  // The parts of a query that rows depend on, apart from the place.
  using RowsKey = std::array<std::int64_t, 3>;
  [[nodiscard]] RowsKey key_of(const RoutingQuery& query) const;
  // Rows that one rank's tokens bring each expert, capacity applied.
  [[nodiscard]] std::vector<std::int64_t> rows_by_expert(const RoutingQuery& query) const;
  // Rows that an expert takes of one rank at most; 0: all.
  [[nodiscard]] std::int64_t capacity() const;

 private:
  // Valid until the next call.
  [[nodiscard]] const std::vector<std::int64_t>& remembered(const RoutingQuery& query) const;
  [[nodiscard]] std::vector<std::int64_t> dealt(const RoutingQuery& query) const;
  [[nodiscard]] std::vector<double> shares(const RoutingQuery& query) const;
  [[nodiscard]] ExpertRows balanced_rows() const;

  const TrainingPlan& plan_;
  std::int64_t tokens_ = 0;  // of one rank and microbatch
  ExpertCounts counts_;
  // Every place of a group, forward and backward, asks for the same rows.
  mutable std::map<RowsKey, std::vector<std::int64_t>> rows_;
};

}  // namespace trainyard
