// Finds the best layouts of a model on a cluster, without simulating those that cannot be among
// them.
//
//    SearchResult found = search({.space = {.scenario = {.file = "a.json"}}, .journal = journal});
//    found.best.front().layout.variant.changes;   // --set changes of the quickest layout that fits
//
// The search is branch and bound. Every legal layout gets two proven lower bounds (bounds.hpp). A
// layout is pruned if its least memory exceeds the memory of a GPU. The others are simulated in the
// order of their least time, a few at a time, as long as they could still be among the best or on
// the Pareto front. A layout is pruned when both of these hold: as many layouts as requested are
// quicker than its least time (or another interleaving of it is), and one simulated layout needs
// neither more time nor more memory than its bounds. The first is enough for a question without the
// Pareto front. A pruned layout could not have been in the answer
// (tests/tools/studies/search/search_test.cpp compares with simulating everything).
//
// The scenario's own layout and the plainest ones come first (one sequence per microbatch, 1F1B),
// so that there is an answer within seconds. A search that is ended early returns the best layouts
// found so far. Layouts that differ only in their interleaving are one row of the answer: the
// quickest of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/words.hpp"
#include "tools/studies/batch/journal.hpp"
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

// The quantity by which layouts are ordered. Bounds are of time, so a search for the least cost or
// energy of a step simulates every legal layout whose least memory fits.
enum class SearchObjective : std::uint8_t { Time, Cost, Energy };
inline constexpr Words<SearchObjective, 3> kSearchObjectives{{{SearchObjective::Time, "time"},
                                                              {SearchObjective::Cost, "cost"},
                                                              {SearchObjective::Energy, "energy"}}};

struct SearchQuestion {
  SearchSpace space;
  Journal& journal;  // rows of simulated layouts; layouts with a row are not simulated once more
  std::size_t top = 10;                               // number of best layouts
  bool exhaustive = false;                            // simulate every legal layout
  SearchObjective objective = SearchObjective::Time;  // order of the best layouts
  bool refine = false;  // afterwards try other placements and algorithms of the best layouts
  // Whether the Pareto front is part of the answer. Without it, a layout is pruned by its least
  // time alone, which leaves about a third of the simulations.
  bool front = true;
  std::size_t processes = 0;  // 0: one per core
  double headroom = 0.0;      // share of a GPU's memory that a layout must leave free to fit
  // time limit, after which the best layouts so far are the answer; 0: no limit
  double seconds = 0.0;
  std::function<bool()> end = {};  // polled often; true: the best layouts so far are the answer
  // Called from time to time with the present activity and the fraction of it that is done.
  std::function<void(const std::string&, double)> progress = {};
  // Called for each layout that fits and is quicker than all before.
  std::function<void(const FoundLayout&)> better = {};
  std::function<void(std::size_t)> redone = {};  // as BatchOptions::redone

  [[nodiscard]] bool simulates_all() const {
    return exhaustive || objective != SearchObjective::Time;
  }
};

struct SearchCounts {
  std::size_t checked_layouts = 0;  // combinations
  std::size_t legal = 0;            // layouts among them
  std::size_t refused = 0;    // legal by the search's rules, but refused by the reader or the model
  std::size_t too_large = 0;  // pruned by least memory
  std::size_t too_slow = 0;   // pruned by least time (and memory, for the front)
  std::size_t simulated = 0;
  std::size_t do_not_fit = 0;   // of the simulated layouts
  std::size_t not_reached = 0;  // when the search was ended
  // Combinations of values of further fields: all of them, and those that were not read before the
  // end.
  std::size_t further = 1;
  std::size_t combinations_not_read = 0;
};

struct RefusedLayout {
  Layout layout;
  std::string message;  // of the reader, the model or the run
};

// The best layouts with other placements and collective algorithms, see refine().
struct RefinedLayouts {
  std::vector<FoundLayout> best;  // quicker than their original layouts, quickest first
  std::size_t changes = 0;        // number of changes tried
  std::size_t refused = 0;        // changes whose group cannot run the algorithm
  std::size_t cannot_gain = 0;    // changes pruned by least time
  std::size_t simulated = 0;
  std::size_t not_reached = 0;
};

struct SearchResult {
  SearchObjective objective = SearchObjective::Time;
  // The layouts that fit, in the order of the objective. Layouts that differ only in their
  // interleaving have one entry.
  std::vector<FoundLayout> best;
  // Pareto front: no simulated layout is quicker with less memory; by time. Empty where the
  // question does not ask for it.
  std::vector<FoundLayout> front;
  std::vector<FoundLayout> fitting;  // every simulated layout that fits, by time
  SearchCounts counts;
  // The part of the scenario for which no bound is known: then every legal layout is simulated.
  std::optional<std::string_view> unbounded = {};
  std::optional<RefusedLayout> refused_first = {};  // one of counts.refused
  std::optional<RefinedLayouts> refined = {};
  double gpus = 0.0;
};

[[nodiscard]] SearchResult search(const SearchQuestion& question);

// Tries other placements of the ranks and other collective algorithms for the best layouts. These
// changes cost little once the sizes are chosen.
//
// This second stage does not search all combinations. For each layout it tries one change at a time
// (the other order of stages and replicas over the nodes; on nodes of several kinds, which kind the
// first stages or replicas get; another algorithm for the collectives of one kind of group, if the
// step waits for them 1 % of its time or more), and then the quickest changes of all kinds
// together. Algorithms by name are simulated at the links' full rates, but
// NCCL at its measured rates. So an algorithm counts only if it is also quicker than the plain one
// by name (a ring, or pairwise). A change is not simulated if its proven least time shows no gain.
//
// `best` are fitting layouts of the search. `end` returns true when the results so far are the
// answer.
[[nodiscard]] RefinedLayouts refine(const SearchQuestion& question, const Scenario& scenario,
                                    const std::vector<FoundLayout>& best,
                                    const std::function<bool()>& end);

// A layout in a few words: "TP 8, PP 4 x 5, DP 16, mbs 1, recompute none, ZeRO 1", and the further
// fields that the search changes.
[[nodiscard]] std::string layout_name(const Layout& layout);
// Whether a row fits and leaves the share `headroom` of each GPU's memory free.
[[nodiscard]] bool fits(const RowFigures& figures, double headroom);
// Whether a fitting layout leaves less than 3 % of a GPU's memory free. This is within the error of
// predicted peaks (tools/studies/validate/ACCURACY.md).
[[nodiscard]] bool is_tight(const RowFigures& figures);

}  // namespace trainyard
