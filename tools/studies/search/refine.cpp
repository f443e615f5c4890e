#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "scenarios/reader/node_order.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/report/result_json.hpp"
#include "tools/studies/search/candidates.hpp"
#include "tools/studies/search/search.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// The algorithms of a kind of group are tried if the step waits for it at least this share of its
// time.
constexpr double kLeastExposed = 0.01;
// A layout that is quicker by less than this share counts as equally quick.
constexpr double kLeastGain = 1e-6;
// The least gain over the plain algorithm, as a share of the step.
constexpr double kLeastFairGain = 1e-3;

// Two kinds of changes are tried independently: the placement, and the collectives of one kind of
// group.
constexpr const char* kPlacement = "placement";

struct Try {
  std::size_t layout = 0;  // index into the best layouts
  std::string what;        // kPlacement or the kind of group
  std::vector<Override> changes;
  bool plain = false;  // whether it names the plain algorithm (CollectiveAlgorithm::is_plain)
};

Layout changed(const Layout& layout, const std::vector<Override>& changes) {
  Layout next = layout;
  next.variant.changes.insert(next.variant.changes.end(), changes.begin(), changes.end());
  next.further.insert(next.further.end(), changes.begin(), changes.end());
  return next;
}

// The collectives of a kind of group for which a step of the plan waits. The list is empty if the
// group only sends.
std::vector<CollectiveOp> operations_of(const TrainingPlan& plan, GroupKind kind) {
  const Parallelism& p = plan.parallelism;
  const std::vector<CollectiveOp> sharded{CollectiveOp::AllGather, CollectiveOp::ReduceScatter};
  switch (kind) {
    case GroupKind::Tensor:
      return p.sequence_parallel ? sharded : std::vector{CollectiveOp::AllReduce};
    case GroupKind::Data:
      return p.zero_stage > 0 ? sharded : std::vector{CollectiveOp::AllReduce};
    case GroupKind::Expert:
      return plan.experts.dispatcher == Dispatcher::AllGather ? sharded
                                                              : std::vector{CollectiveOp::AllToAll};
    case GroupKind::Context:
      if (p.context_exchange == ContextExchange::AllToAll) return {CollectiveOp::AllToAll};
      if (p.context_exchange == ContextExchange::AllGather) return sharded;
      return {};
    default:
      return {};
  }
}

// Names of the algorithms that exist for all of the operations. Parameter servers are left out,
// because they are another way to train.
std::vector<std::string> algorithms_of(const std::vector<CollectiveOp>& ops) {
  std::vector<std::string> names{CollectiveChoice::kStandard};
  for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
    const std::string name(algorithm->name());
    if (algorithm->op() != ops.front() || algorithm->has_servers()) continue;
    const bool all = std::ranges::all_of(
        ops, [&](CollectiveOp op) { return find_algorithm(op, name) != nullptr; });
    if (all) names.push_back(name);
  }
  return names;
}

// The rank order with pipeline stages and replicas exchanged. It decides which of them stay within
// a node, or a leaf switch.
std::string other_order(const std::string& order) {
  std::string other = order;
  const std::size_t data = other.find("dp"), pipeline = other.find("pp");
  other.replace(data, 2, "pp");
  other.replace(pipeline, 2, "dp");
  return other;
}

double exposed_share(const FoundLayout& found, GroupKind kind) {
  const std::string name = "exposed_" + std::string(to_string(kind));
  for (const auto& [part, seconds] : mean_breakdown(found.row))
    if (part == name) return seconds / found.figures.step_time_s;
  return 0.0;
}

// All single changes of the best layouts, and the resulting layouts.
struct Tries {
  std::vector<Try> tries;
  std::vector<Layout> layouts;  // one for each change

  // `plan` is that of the layout after the change.
  void add(const FoundLayout& found, Try change, TrainingPlan plan) {
    Layout layout = changed(found.layout, change.changes);
    layout.plan = std::move(plan);
    tries.push_back(std::move(change));
    layouts.push_back(std::move(layout));
  }
};

void add_algorithms(std::size_t number, const FoundLayout& found, GroupKind kind, Tries& all) {
  const TrainingPlan& plan = found.layout.plan;
  const std::vector<CollectiveOp> ops = operations_of(plan, kind);
  if (ops.empty() || exposed_share(found, kind) < kLeastExposed) return;
  const std::string group(to_string(kind));
  for (const std::string& name : algorithms_of(ops)) {
    const bool same = std::ranges::all_of(
        ops, [&](CollectiveOp op) { return plan.collectives.of(kind, op) == name; });
    if (same) continue;
    const CollectiveAlgorithm* algorithm = find_algorithm(ops.front(), name);
    const bool plain = algorithm != nullptr && algorithm->is_plain();
    Try change{.layout = number, .what = group, .changes = {}, .plain = plain};
    TrainingPlan with = plan;
    // An all_gather and its reduce_scatter get the same algorithm, so one name describes a change.
    for (const CollectiveOp op : ops) {
      with.collectives.algorithm[kind][op] = name;
      change.changes.push_back(
          {.path = "collectives." + group + "." + std::string(to_string(op)), .value = name});
    }
    all.add(found, std::move(change), std::move(with));
  }
}

// The orders of the kinds of nodes that are tried: all of up to three kinds, otherwise those that
// begin with another kind.
std::vector<std::vector<std::string>> node_orders(const ClusterSpec& cluster) {
  std::vector<std::string> order = node_kinds(cluster);
  if (order.size() > 3) {
    std::vector<std::vector<std::string>> rotations;
    for (std::size_t i = 0; i < order.size(); ++i) {
      rotations.push_back(order);
      std::ranges::rotate(order, order.begin() + 1);
    }
    return rotations;
  }
  std::ranges::sort(order);
  std::vector<std::vector<std::string>> orders;
  do {
    orders.push_back(order);
  } while (std::ranges::next_permutation(order).found);
  return orders;
}

// Where the ranks run: which dimension leaves a node last, and, on nodes of several kinds, which of
// them the first stages (or replicas) get.
void add_placements(std::size_t number, const FoundLayout& found, const ClusterSpec& cluster,
                    Tries& all) {
  const Parallelism& p = found.layout.plan.parallelism;
  if (!p.placement.empty() || p.pipeline * p.data == 1) return;
  std::vector<std::string> rank_orders{p.rank_order};
  if (p.pipeline > 1 && p.data > 1 && p.tensor_per_stage.empty())
    rank_orders.push_back(other_order(p.rank_order));
  for (const std::vector<std::string>& nodes : node_orders(cluster)) {
    const std::vector<std::int64_t> placement = placement_by_nodes(cluster, nodes);
    for (const std::string& rank_order : rank_orders) {
      if (placement.empty() && rank_order == p.rank_order) continue;
      Try change{.layout = number, .what = kPlacement, .changes = {}};
      TrainingPlan with = found.layout.plan;
      if (rank_order != p.rank_order) {
        with.parallelism.rank_order = rank_order;
        change.changes.push_back({.path = "parallelism.rank_order", .value = rank_order});
      }
      if (!placement.empty()) {
        with.parallelism.placement = placement;
        change.changes.push_back({.path = "parallelism.node_order", .value = to_line(Json(nodes))});
      }
      all.add(found, std::move(change), std::move(with));
    }
  }
}

Tries single_changes(const std::vector<FoundLayout>& best, const ClusterSpec& cluster) {
  Tries all;
  for (std::size_t i = 0; i < best.size(); ++i) {
    add_placements(i, best[i], cluster, all);
    for (const GroupKind kind :
         {GroupKind::Tensor, GroupKind::Context, GroupKind::Expert, GroupKind::Data})
      add_algorithms(i, best[i], kind, all);
  }
  return all;
}

bool gains(double step_time_s, const FoundLayout& found) {
  return step_time_s < found.figures.step_time_s * (1.0 - kLeastGain);
}

// The second stage of a search: simulates single changes of the best layouts, then combines the
// quickest change of each kind. It is a heuristic: the number of simulations grows with the sum of
// the choices and not with their product.
class Refining {
 public:
  Refining(const SearchQuestion& question, const std::vector<FoundLayout>& best,
           const std::function<bool()>& end)
      : question_(question), best_(best), end_(end) {}

  RefinedLayouts run(const Scenario& scenario) {
    const Tries singles = single_changes(best_, scenario.cluster);
    result_.changes = singles.tries.size();
    std::vector<Candidate> open;
    std::vector<const Try*> tries;
    std::vector<const Layout*> changed_layouts;
    for (const Layout& layout : singles.layouts) changed_layouts.push_back(&layout);
    const std::vector<Candidate> all = bounded(question_, scenario, changed_layouts, end_);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].reached) {
        ++result_.not_reached;
      } else if (!all[i].refusal.empty()) {
        ++result_.refused;
      } else if (!gains(all[i].bound.step_time_s, best_[singles.tries[i].layout])) {
        ++result_.cannot_gain;
      } else {
        open.push_back(all[i]);
        tries.push_back(&singles.tries[i]);
      }
    }
    for (Outcome& outcome : simulate(open, tries)) note(std::move(outcome));
    keep_fair_gains();
    const std::vector<Try> together = combined();
    std::vector<Layout> layouts;
    std::vector<Candidate> candidates;
    std::vector<const Try*> combinations;
    // Candidates point into `layouts`, which therefore must not be moved.
    layouts.reserve(together.size());
    for (const Try& change : together) {
      layouts.push_back(changed(best_[change.layout].layout, change.changes));
      candidates.push_back({.layout = &layouts.back(), .bound = {}, .refusal = {}});
      combinations.push_back(&change);
    }
    for (Outcome& outcome : simulate(candidates, combinations))
      if (quicker_than_each(outcome)) result_.best.push_back(std::move(outcome.found));
    for (auto& [of, gain] : gains_) result_.best.push_back(std::move(gain.found));
    sort_by_time(result_.best);
    result_.best.resize(std::min(result_.best.size(), question_.top));
    return std::move(result_);
  }

 private:
  using ChangeKey = std::pair<std::size_t, std::string>;  // index of the layout, and kind of change

  struct Outcome {
    const Try* change = nullptr;
    FoundLayout found;
  };

  // Simulates the candidates and returns the outcomes that fit and are quicker than their original
  // layout.
  std::vector<Outcome> simulate(const std::vector<Candidate>& candidates,
                                const std::vector<const Try*>& tries) {
    std::vector<const Layout*> layouts;
    for (const Candidate& candidate : candidates) layouts.push_back(candidate.layout);
    const std::vector<Json> rows = simulated(question_, layouts, end_);
    std::vector<Outcome> outcomes;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].is_null()) {
        ++result_.not_reached;
        continue;
      }
      const RowFigures figures = row_figures(rows[i]);
      ++(figures.ran ? result_.simulated : result_.refused);
      if (fits(figures, question_.headroom) && gains(figures.step_time_s, best_[tries[i]->layout]))
        outcomes.push_back({tries[i], {*layouts[i], candidates[i].bound, figures, rows[i]}});
    }
    return outcomes;
  }

  // Records the quickest change of each kind, and the time with the plain algorithm for comparison.
  void note(Outcome outcome) {
    const ChangeKey place{outcome.change->layout, outcome.change->what};
    const double seconds = outcome.found.figures.step_time_s;
    if (outcome.change->plain) plain_s_[place] = seconds;
    const auto known = gains_.find(place);
    if (known == gains_.end()) {
      gains_.emplace(place, std::move(outcome));
    } else if (seconds < known->second.found.figures.step_time_s) {
      known->second = std::move(outcome);
    }
  }

  // NCCL is simulated at its measured rates, but algorithms by name at the links' full rates. So a
  // gain over NCCL counts only if the layout is also quicker than with the plain algorithm by name.
  // A plain algorithm that is not quicker than the original layout has no entry: every gain over
  // the layout is then one over it, too.
  void keep_fair_gains() {
    std::erase_if(gains_, [&](const auto& entry) {
      const auto plain = plain_s_.find(entry.first);
      return plain != plain_s_.end() &&
             entry.second.found.figures.step_time_s > plain->second * (1.0 - kLeastFairGain);
    });
  }

  [[nodiscard]] bool quicker_than_each(const Outcome& outcome) const {
    return std::ranges::all_of(gains_, [&](const auto& entry) {
      return entry.first.first != outcome.change->layout ||
             gains(outcome.found.figures.step_time_s, entry.second.found);
    });
  }

  // The quickest changes of all kinds together, for each layout that gains by several kinds.
  [[nodiscard]] std::vector<Try> combined() {
    std::map<std::size_t, Try> by_layout;
    std::map<std::size_t, std::size_t> kinds;
    for (const auto& [of, gain] : gains_) {
      Try& all = by_layout.try_emplace(of.first, Try{of.first, "together", {}}).first->second;
      const std::vector<Override>& changes = gain.change->changes;
      all.changes.insert(all.changes.end(), changes.begin(), changes.end());
      ++kinds[of.first];
    }
    std::vector<Try> together;
    for (auto& [layout, change] : by_layout)
      if (kinds[layout] > 1) together.push_back(std::move(change));
    result_.changes += together.size();
    return together;
  }

  const SearchQuestion& question_;
  const std::vector<FoundLayout>& best_;
  const std::function<bool()>& end_;
  RefinedLayouts result_;
  std::map<ChangeKey, Outcome> gains_;  // the quickest change of each kind
  std::map<ChangeKey, double> plain_s_;
};

}  // namespace

RefinedLayouts refine(const SearchQuestion& question, const Scenario& scenario,
                      const std::vector<FoundLayout>& best, const std::function<bool()>& end) {
  return Refining(question, best, end).run(scenario);
}

}  // namespace trainyard
