// The best layouts of a model on a cluster, without simulating those that cannot be.
//
//   SearchResult found = search({.space = {.scenario = {.file = "a.json"}}, .journal = journal});
//   found.best.front().variant.changes;   // --set changes of the quickest layout that fits
//
// Every legal layout gets two proven bounds (bounds.hpp). Those whose least memory is more than a
// GPU has are out. The others are simulated in the order of their least time, a few at a time, as
// long as they could still be among the best or on the Pareto front: a layout is out when as many
// layouts as are asked for are quicker than its least time, and one of all simulated ones needs
// neither more time nor more memory than its least. What is pruned could not have been in the
// answer (tests/tools/studies/search/search_test.cpp compares with simulating everything).
//
// The scenario's own layout and the plainest ones come first (one sequence at a time, 1F1B), so
// that there is an answer within seconds; a search that is ended before it is through answers with
// the best found so far. Layouts that differ in their interleaving alone are one row of the answer:
// the quickest of them.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/studies/batch/batch.hpp"
#include "tools/studies/batch/row.hpp"
#include "tools/studies/search/bounds.hpp"
#include "tools/studies/search/space.hpp"

namespace trainyard {

struct FoundLayout {
  Layout layout;
  LayoutBound bound;
  RowFigures figures;
  nlohmann::ordered_json row;
};

struct SearchQuestion {
  SearchSpace space;
  Journal& journal;           // rows of what was simulated; what it has already is not run again
  std::size_t top = 10;       // how many of the best
  bool exhaustive = false;    // simulate every legal layout
  bool refine = false;        // then other placements and algorithms of the best
  std::size_t processes = 0;  // 0: one per core
  double headroom = 0.0;      // share of a GPU's memory that a layout must leave free to fit
  double seconds = 0.0;       // what is known after so long is the answer; 0: as long as it takes
  std::function<bool()> end = {};  // asked often; true: what is known so far is the answer
  // Is told now and then what is being done, and the fraction of it.
  std::function<void(const std::string&, double)> progress = {};
  // Told of each layout that fits and is quicker than all before.
  std::function<void(const FoundLayout&)> better = {};
  std::function<void(std::size_t)> redone = {};  // as BatchOptions::redone
};

struct SearchCounts {
  std::size_t looked_at = 0;  // combinations
  std::size_t legal = 0;      // layouts among them
  std::size_t refused = 0;    // legal by the search's rules, refused by the reader or the model
  std::size_t too_large = 0;  // out by least memory
  std::size_t too_slow = 0;   // out by least time (and memory, for the front)
  std::size_t simulated = 0;
  std::size_t do_not_fit = 0;   // of those simulated
  std::size_t not_reached = 0;  // before the search was ended
  // Combinations of values of further fields: all, and those not even read before that.
  std::size_t further = 1;
  std::size_t more_not_reached = 0;
};

struct RefusedLayout {
  Layout layout;
  std::string message;  // of the reader, the model or the run
};

// The best once more with other placements and collective algorithms, see refine().
struct RefinedLayouts {
  std::vector<FoundLayout> best;  // quicker than what they came from, quickest first
  std::size_t changes = 0;        // tried
  std::size_t refused = 0;        // of them: the group cannot run the algorithm
  std::size_t cannot_gain = 0;    // out by least time
  std::size_t simulated = 0;
  std::size_t not_reached = 0;
};

struct SearchResult {
  std::vector<FoundLayout>
      best;  // that fit, quickest first; one of those alike but for interleaving
  std::vector<FoundLayout> front;  // Pareto: nothing simulated is quicker with less; by time
  SearchCounts counts;
  std::optional<RefusedLayout> refused_first = {};  // one of counts.refused
  std::optional<RefinedLayouts> refined = {};
  double gpus = 0.0;
  double tokens_per_step = 0.0;
};

[[nodiscard]] SearchResult search(const SearchQuestion& question);

// The best layouts once more, with other placements of their ranks and other algorithms of their
// collectives: what costs little to change once the sizes are chosen.
//
// This second stage is no search of all combinations: of each layout, one change at a time (the
// other order of stages and replicas over the nodes; another algorithm for the collectives of one
// kind of group, where the step waits for them 1 % of its time or more), then the quickest changes
// of all kinds together. Algorithms by name move at the links' full rates and NCCL at the pace
// measured of it, so one counts only where it is also quicker than the plain one by name (a ring,
// or pairwise). A change whose proven least time gains nothing is not simulated.
//
// `best`: fitting layouts of the search. `end`: true when what is known so far is the answer.
[[nodiscard]] RefinedLayouts refine(const SearchQuestion& question, const Scenario& scenario,
                                    const std::vector<FoundLayout>& best,
                                    const std::function<bool()>& end);

// A layout in a few words: "TP 8, PP 4 x 5, DP 16, mbs 1, recompute none, ZeRO 1", and further
// fields that the search tries.
[[nodiscard]] std::string layout_name(const Layout& layout);
// Whether a row says that it fits, with such a share of each GPU's memory free.
[[nodiscard]] bool fits(const RowFigures& figures, double headroom);
// Whether a layout that fits leaves less than 3 % of a GPU's memory: within what predicted peaks
// are off (tools/studies/validate/ACCURACY.md).
[[nodiscard]] bool is_tight(const RowFigures& figures);

}  // namespace trainyard
