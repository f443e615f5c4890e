#include "tools/studies/search/search.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "models/schedules/schedule.hpp"
#include "sim/base/error.hpp"
#include "tools/studies/search/candidates.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// The name of a layout without its interleaving: all layouts that differ only in their interleaving
// have the same name, and are one row of the answer.
std::string row_name(const Layout& layout) {
  Layout row = layout;
  Parallelism& p = row.plan.parallelism;
  const Schedule* schedule = find_schedule(p.schedule);
  if (schedule != nullptr && schedule->is_one_f_one_b()) {
    p.schedule = one_f_one_b(1).name();
    p.interleave = 1;
  }
  return layout_name(row);
}

// The number of layouts that are simulated before the bounds are checked once more. It does not
// depend on the number of cores, so that every machine simulates the same layouts.
constexpr std::size_t kRunsAtOnce = 16;

using Clock = std::chrono::steady_clock;

// Whether a search may continue: until it is ended, or until a share of its time is over.
class TimeBudget {
 public:
  explicit TimeBudget(const SearchQuestion& question) : question_(question) {}

  [[nodiscard]] bool is_over(double share = 1.0) const {
    if (question_.end && question_.end()) return true;
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    return question_.seconds > 0.0 && seconds > share * question_.seconds;
  }
  // The same check as a function, for code that polls it.
  [[nodiscard]] std::function<bool()> question(double share = 1.0) const {
    if (!question_.end && !(question_.seconds > 0.0)) return {};
    return [this, share] { return is_over(share); };
  }

 private:
  const SearchQuestion& question_;
  Clock::time_point start_ = Clock::now();
};

void count_refused(SearchResult& result, const Candidate& candidate, const std::string& message) {
  ++result.counts.refused;
  if (!result.refused_first) result.refused_first = {*candidate.layout, message};
}

bool no_worse(const LayoutBound& figures, const LayoutBound& bound) {
  return figures.step_time_s <= bound.step_time_s && figures.peak_bytes <= bound.peak_bytes;
}

// Returns the bound by which layouts are pruned: on the time of a token, and on the memory.
LayoutBound of_a_token(const Layout& layout, double step_time_s, double peak_bytes) {
  return {.step_time_s = step_time_s / tokens_of(layout), .peak_bytes = peak_bytes};
}
LayoutBound of_a_token(const Candidate& candidate) {
  return of_a_token(*candidate.layout, candidate.bound.step_time_s, candidate.bound.peak_bytes);
}

// The layouts that are known to fit, all by the time of a token. A candidate is pruned only by
// proven bounds, so a pruned layout cannot be part of the answer.
class Known {
 public:
  explicit Known(const SearchQuestion& question) : top_(question.top), front_(question.front) {}

  void add(const std::string& row, const LayoutBound& figures) {
    fitting_.push_back(figures);
    const auto [best, fresh] = best_s_.try_emplace(row, figures.step_time_s);
    if (!fresh) best->second = std::min(best->second, figures.step_time_s);
    times_s_.clear();
    for (const auto& [name, seconds] : best_s_) times_s_.push_back(seconds);
    std::ranges::sort(times_s_);
  }
  // Whether the layout can be neither one of the best rows nor on a Pareto front that is asked for.
  [[nodiscard]] bool excludes(const std::string& row, const LayoutBound& bound) const {
    const auto is_no_worse = [&](const LayoutBound& known) { return no_worse(known, bound); };
    return is_no_row(row, bound) && (!front_ || std::ranges::any_of(fitting_, is_no_worse));
  }
  [[nodiscard]] bool is_quickest(double seconds) const {
    return !times_s_.empty() && seconds <= times_s_.front();
  }

 private:
  // Whether a quicker interleaving of the same row is known, or enough quicker rows are known.
  [[nodiscard]] bool is_no_row(const std::string& row, const LayoutBound& bound) const {
    const auto same = best_s_.find(row);
    if (same != best_s_.end() && bound.step_time_s > same->second) return true;
    return times_s_.size() >= top_ && bound.step_time_s > times_s_[top_ - 1];
  }

  std::size_t top_;
  bool front_;
  std::vector<LayoutBound> fitting_;
  std::map<std::string, double> best_s_;  // by row
  std::vector<double> times_s_;           // the values of best_s_, sorted
};

class Simulation {
 public:
  Simulation(const SearchQuestion& question, const TimeBudget& patience, SearchResult& result)
      : question_(question), patience_(patience), result_(result), known_(question) {}

  // Simulates the candidates that may be in the answer, in their order. `last` means that no other
  // work is left after them, so that the progress can be shown.
  void run(const std::vector<Candidate>& candidates, bool last) {
    // A candidate is judged by the results of all earlier batches. Those of its own batch come
    // later, so a few layouts are simulated that a search one by one would prune.
    std::vector<const Candidate*> wave;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& candidate = candidates[i];
      if (patience_.is_over()) {
        ++result_.counts.not_reached;
      } else if (!question_.simulates_all() &&
                 known_.excludes(row_name(*candidate.layout), of_a_token(candidate))) {
        ++result_.counts.too_slow;
      } else {
        wave.push_back(&candidate);
      }
      if (wave.size() == kRunsAtOnce || (i + 1 == candidates.size() && !wave.empty()))
        simulate(std::exchange(wave, {}));
      const double done = static_cast<double>(i + 1) / static_cast<double>(candidates.size());
      if (question_.progress) question_.progress("simulating", last ? done : 0.0);
    }
  }

  std::vector<FoundLayout> fitting;

 private:
  void simulate(const std::vector<const Candidate*>& wave) {
    std::vector<const Layout*> layouts;
    for (const Candidate* candidate : wave) layouts.push_back(candidate->layout);
    const std::vector<Json> rows = simulated(question_, layouts, patience_.question());
    for (std::size_t i = 0; i < wave.size(); ++i) take(*wave[i], rows[i]);
  }

  void take(const Candidate& candidate, const Json& row) {
    if (row.is_null()) {
      ++result_.counts.not_reached;
      return;
    }
    const RowFigures figures = row_figures(row);
    if (!figures.ran) {
      count_refused(result_, candidate, row["message"]);
      return;
    }
    ++result_.counts.simulated;
    if (!fits(figures, question_.headroom)) {
      ++result_.counts.do_not_fit;
      return;
    }
    const LayoutBound simulated =
        of_a_token(*candidate.layout, figures.step_time_s, figures.peak_bytes);
    known_.add(row_name(*candidate.layout), simulated);
    fitting.push_back({*candidate.layout, candidate.bound, figures, row});
    if (question_.better && known_.is_quickest(simulated.step_time_s))
      question_.better(fitting.back());
  }

  const SearchQuestion& question_;
  const TimeBudget& patience_;
  SearchResult& result_;
  Known known_;
};

// Drops the outdated rows of all layouts at once. Otherwise the journal would be rewritten for
// every few layouts.
void drop_outdated(const SearchQuestion& question, const std::vector<Layout>& layouts) {
  std::vector<Variant> variants;
  for (const Layout& layout : layouts) variants.push_back(layout.variant);
  const std::size_t outdated = drop_outdated(question.journal, variants);
  if (outdated > 0 && question.redone) question.redone(outdated);
}

// The Pareto front: a layout is on it if no quicker layout needs less or equal memory. `by_time` is
// sorted by time.
std::vector<FoundLayout> pareto(const std::vector<FoundLayout>& by_time) {
  std::vector<FoundLayout> front;
  for (const FoundLayout& found : by_time) {
    if (front.empty() || found.figures.peak_bytes < front.back().figures.peak_bytes)
      front.push_back(found);
  }
  return front;
}

// The first layout of each row, at most `top` rows.
std::vector<FoundLayout> best_rows(const std::vector<FoundLayout>& sorted, std::size_t top) {
  std::vector<FoundLayout> best;
  std::set<std::string> rows;
  for (const FoundLayout& found : sorted)
    if (best.size() < top && rows.insert(row_name(found.layout)).second) best.push_back(found);
  return best;
}

// Sorts by the cost or energy of a token; layouts of equal value stay in the order of their time.
void sort_by_objective(SearchObjective objective, std::vector<FoundLayout>& by_time) {
  if (objective == SearchObjective::Time) return;
  std::ranges::stable_sort(by_time, {}, [objective](const FoundLayout& found) {
    const RowFigures& figures = found.figures;
    const auto& value = objective == SearchObjective::Cost ? figures.cost : figures.energy_kwh;
    return value.value_or(0.0) / tokens_of(found.layout);
  });
}

// Refuses an objective that the scenario gives no figures for.
void check_objective(SearchObjective objective, const Scenario& scenario) {
  if (objective == SearchObjective::Time) return;
  const auto refuse = [&](std::string problem, std::string hint) {
    throw InputError(Problem{.file = scenario.file,
                             .pointer = "/power",
                             .problem = std::move(problem),
                             .hint = std::move(hint)});
  };
  if (!scenario.power)
    refuse(fmt::format("is missing, and the objective {} needs it",
                       word_for(kSearchObjectives, objective)),
           objective == SearchObjective::Cost ? "add the block, or --set power.price_per_gpu_hour=2"
                                              : "add the block, or --set power.pue=1.2");
  const PowerSettings& power = *scenario.power;
  if (objective == SearchObjective::Cost && !power.price_per_kwh && !power.price_per_gpu_hour &&
      power.price_presets.empty() && !power.capital_per_gpu)
    refuse("has no price, and the objective cost needs one",
           "add price_per_gpu_hour, price_preset, price_per_kwh or capital_per_gpu");
}

// Whether a layout is plain: one sequence per microbatch, 1F1B, and at most the optimizer state
// sharded. Plain layouts often fit and are not far from the best.
bool is_plain(const Layout& layout, const Scenario& scenario) {
  const Parallelism& p = layout.plan.parallelism;
  return layout.plan.training.micro_batch_size == 1 && p.schedule == one_f_one_b(1).name() &&
         p.zero_stage <= 1 && p.context == scenario.plan.parallelism.context;
}

// The distance of two layouts: the number of doublings and halvings of their sizes, plus 0.5 if
// other settings differ. It is 0 for equal layouts.
double distance(const TrainingPlan& a, const TrainingPlan& b) {
  const auto doublings = [](std::int64_t size, std::int64_t other) {
    return std::abs(std::log2(static_cast<double>(size) / static_cast<double>(other)));
  };
  const Parallelism &p = a.parallelism, &q = b.parallelism;
  const bool same_words = p.schedule == q.schedule && p.zero_stage == q.zero_stage &&
                          a.training.recompute == b.training.recompute;
  return doublings(p.tensor, q.tensor) + doublings(p.pipeline, q.pipeline) +
         doublings(p.context, q.context) + doublings(p.expert, q.expert) +
         doublings(p.interleave, q.interleave) +
         doublings(p.expert_tensor_size(), q.expert_tensor_size()) +
         doublings(a.training.micro_batch_size, b.training.micro_batch_size) +
         (same_words ? 0.0 : 0.5);
}

// One search: bounds the layouts and simulates those that the bounds do not prune.
class Searching {
 public:
  Searching(const SearchQuestion& question, const TimeBudget& patience, const Scenario& scenario,
            SearchResult& result)
      : question_(question),
        scenario_(scenario),
        result_(result),
        patience_(patience),
        simulation_(question, patience_, result) {}

  // Looks at the layouts in three groups: the scenario's own layout, plain ones, all others. A few
  // layouts of the first two groups are simulated at once. Their results are a first answer, and
  // they prune many of the layouts that follow.
  void run(const std::vector<Layout>& layouts) {
    std::vector<const Layout*> own, plain, others;
    for (const Layout& layout : layouts) {
      const bool is_own = own.empty() && distance(layout.plan, scenario_.plan) == 0.0;
      (is_own ? own : is_plain(layout, scenario_) ? plain : others).push_back(&layout);
    }
    nearest_first(plain);
    nearest_first(others);
    open(own, kPlainShare);
    simulate_first();
    open(plain, kPlainShare);
    simulate_first();
    open(others, kBoundsShare);
    simulation_.run(open_, true);
    sort_by_time(simulation_.fitting);
    if (question_.front) result_.front = pareto(simulation_.fitting);
    sort_by_objective(question_.objective, simulation_.fitting);
    result_.best = best_rows(simulation_.fitting, question_.top);
    // `fitting` is by time, whatever the objective is.
    sort_by_time(simulation_.fitting);
    result_.fitting = std::move(simulation_.fitting);
    if (question_.refine && question_.objective == SearchObjective::Time)
      result_.refined = refine(question_, scenario_, result_.best, patience_.question());
  }

 private:
  // Shares of the search's time after which bounding stops.
  static constexpr double kPlainShare = 0.35, kBoundsShare = 0.5;

  // Sorts the layouts by their distance from the scenario's own layout, in case the time ends
  // before all of them are examined.
  void nearest_first(std::vector<const Layout*>& layouts) const {
    std::ranges::stable_sort(
        layouts, {}, [&](const Layout* layout) { return distance(layout->plan, scenario_.plan); });
  }

  // Simulates the first open layouts for a first answer, and removes them from the open ones.
  void simulate_first() {
    const std::size_t count = std::min(open_.size(), kRunsAtOnce);
    const auto end = open_.begin() + static_cast<std::ptrdiff_t>(count);
    simulation_.run({open_.begin(), end}, false);
    open_.erase(open_.begin(), end);
  }

  // Bounds the layouts and adds those that may fit to the open ones, which are sorted by their
  // least time.
  void open(const std::vector<const Layout*>& layouts, double share) {
    const double most_bytes = most_peak_bytes();
    for (const Candidate& candidate :
         bounded(question_, scenario_, layouts, patience_.question(share))) {
      if (!candidate.reached) {
        ++result_.counts.not_reached;
      } else if (!candidate.refusal.empty()) {
        count_refused(result_, candidate, candidate.refusal);
      } else if (candidate.bound.peak_bytes > most_bytes) {
        ++result_.counts.too_large;
      } else {
        open_.push_back(candidate);
      }
    }
    std::ranges::stable_sort(open_, {},
                             [](const Candidate& one) { return of_a_token(one).step_time_s; });
  }

  // The largest least memory of a layout that may fit.
  [[nodiscard]] double most_peak_bytes() const {
    if (unbounded_part(scenario_)) return std::numeric_limits<double>::infinity();
    return (1.0 - question_.headroom) * Bounder(scenario_).capacity_bytes();
  }

  const SearchQuestion& question_;
  const Scenario& scenario_;
  SearchResult& result_;
  const TimeBudget& patience_;
  Simulation simulation_;
  std::vector<Candidate> open_;
};

}  // namespace

SearchResult search(const SearchQuestion& question) {
  constexpr double kReadingShare = 0.15;  // share of the search's time
  const TimeBudget patience(question);
  const Scenario scenario = load_variant(question.space.scenario);
  check_objective(question.objective, scenario);
  Enumeration enumeration{.end = patience.question(kReadingShare)};
  if (question.progress)
    enumeration.progress = [&](double fraction) { question.progress("reading", fraction); };
  const Layouts layouts = enumerate(question.space, enumeration);
  drop_outdated(question, layouts.legal);
  SearchResult result;
  result.objective = question.objective;
  result.unbounded = unbounded_part(scenario);
  result.counts.checked_layouts = layouts.checked_layouts;
  result.counts.legal = layouts.legal.size();
  result.counts.further = layouts.further;
  result.counts.combinations_not_read = layouts.combinations_not_read;
  result.gpus = gpu_count(scenario.cluster);
  Searching(question, patience, scenario, result).run(layouts.legal);
  return result;
}

namespace {

// The further changes of a layout as text: ", rank_order=tp-dp-pp, data.all_reduce=ring". It is ",
// data=ring" if all named operations of a group have the same algorithm.
std::string more_text(const std::vector<Override>& changes) {
  const auto group_of = [](const Override& change) {
    const std::string prefix = "collectives.";
    if (!change.path.starts_with(prefix)) return std::string();
    return change.path.substr(prefix.size(), change.path.rfind('.') - prefix.size());
  };
  std::string text;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const std::string group = group_of(changes[i]);
    std::size_t last = i;
    while (!group.empty() && last + 1 < changes.size() && group_of(changes[last + 1]) == group &&
           changes[last + 1].value == changes[i].value)
      ++last;
    const std::string& path = changes[i].path;
    const std::string name = last > i ? group : path.substr(path.find('.') + 1);
    text += fmt::format(", {}={}", name, changes[i].value);
    i = last;
  }
  return text;
}

}  // namespace

std::string layout_name(const Layout& layout) {
  const Parallelism& p = layout.plan.parallelism;
  const Training& training = layout.plan.training;
  const char* recompute = training.recompute == Recompute::None        ? "none"
                          : training.recompute == Recompute::Selective ? "selective"
                                                                       : "full";
  std::string text = p.tensor_per_stage.empty()
                         ? fmt::format("TP {}", p.tensor)
                         : fmt::format("TP {}", fmt::join(p.tensor_per_stage, "+"));
  text += fmt::format(", PP {}", p.pipeline);
  if (p.interleave > 1) text += fmt::format(" x {}", p.interleave);
  if (p.schedule != one_f_one_b(p.interleave).name()) text += " " + p.schedule;
  if (p.context > 1) text += fmt::format(", CP {}", p.context);
  if (p.expert > 1) text += fmt::format(", EP {}", p.expert);
  if (layout.plan.architecture.has_experts() && p.tensor > 1)
    text += fmt::format(", ETP {}", p.expert_tensor_size());
  text += fmt::format(", DP {}, mbs {}, recompute {}, ZeRO {}", p.data, training.micro_batch_size,
                      recompute, p.zero_stage);
  return text + more_text(layout.further);
}

bool fits(const RowFigures& figures, double headroom) {
  return figures.status == RunStatus::Fits && figures.fullest_share <= 1.0 - headroom;
}

bool is_tight(const RowFigures& figures) {
  constexpr double kTight = 0.03;
  return figures.fullest_share > 1.0 - kTight;
}

}  // namespace trainyard
