#include "scenarios/search/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scenarios/search/candidates.hpp"
#include "scenarios/search/refine.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// Layouts simulated before the bounds are asked again. The same on every machine, so that the same
// layouts are simulated.
constexpr std::size_t kRunsAtOnce = 16;

void count_refused(SearchResult& result, const Candidate& candidate, const std::string& message) {
  ++result.counts.refused;
  if (!result.refused_first) result.refused_first = {*candidate.layout, message};
}

bool no_worse(const RowFigures& figures, const LayoutBound& bound) {
  return figures.step_time_s <= bound.step_time_s && figures.peak_bytes <= bound.peak_bytes;
}

// What is known so far of the layouts that fit.
class Known {
 public:
  explicit Known(std::size_t top) : top_(top) {}

  void add(const RowFigures& figures) {
    if (figures.status != "fits") return;
    fitting_.push_back(figures);
    times_.insert(std::upper_bound(times_.begin(), times_.end(), figures.step_time_s),
                  figures.step_time_s);
  }
  // Can the layout be neither among the best nor on the front?
  [[nodiscard]] bool excludes(const LayoutBound& bound) const {
    if (times_.size() < top_ || bound.step_time_s <= times_[top_ - 1]) return false;
    return std::any_of(fitting_.begin(), fitting_.end(),
                       [&](const RowFigures& known) { return no_worse(known, bound); });
  }

 private:
  std::size_t top_;
  std::vector<RowFigures> fitting_;
  std::vector<double> times_;  // sorted
};

class Simulation {
 public:
  Simulation(const SearchQuestion& question, SearchResult& result)
      : question_(question), result_(result), known_(question.top) {}

  void run(const std::vector<Candidate>& candidates) {
    std::vector<const Candidate*> wave;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (!question_.exhaustive && known_.excludes(candidates[i].bound)) {
        ++result_.counts.too_slow;
      } else {
        wave.push_back(&candidates[i]);
      }
      if (wave.size() == kRunsAtOnce || (i + 1 == candidates.size() && !wave.empty()))
        simulate(std::exchange(wave, {}));
      if (question_.progress)
        question_.progress("simulating",
                           static_cast<double>(i + 1) / static_cast<double>(candidates.size()));
    }
  }

  std::vector<FoundLayout> fitting;

 private:
  void simulate(const std::vector<const Candidate*>& wave) {
    std::vector<const Layout*> layouts;
    for (const Candidate* candidate : wave) layouts.push_back(candidate->layout);
    const std::vector<Json> rows = simulated(question_, layouts);
    for (std::size_t i = 0; i < wave.size(); ++i) take(*wave[i], rows[i]);
  }

  void take(const Candidate& candidate, const Json& row) {
    const RowFigures figures = row_figures(row);
    known_.add(figures);
    if (!figures.ran) {
      count_refused(result_, candidate, row["message"]);
      return;
    }
    ++result_.counts.simulated;
    if (figures.status != "fits") {
      ++result_.counts.do_not_fit;
      return;
    }
    fitting.push_back({*candidate.layout, candidate.bound, figures, row});
  }

  const SearchQuestion& question_;
  SearchResult& result_;
  Known known_;
};

std::vector<FoundLayout> pareto(const std::vector<FoundLayout>& by_time) {
  std::vector<FoundLayout> front;
  for (const FoundLayout& found : by_time) {
    if (front.empty() || found.figures.peak_bytes < front.back().figures.peak_bytes)
      front.push_back(found);
  }
  return front;
}

}  // namespace

SearchResult search(const SearchQuestion& question) {
  const Layouts layouts = enumerate(question.space);
  const Scenario scenario =
      load_scenario(question.space.scenario.file, question.space.scenario.changes);
  SearchResult result;
  result.counts.looked_at = layouts.looked_at;
  result.counts.legal = layouts.legal.size();
  result.gpus = gpu_count(scenario.cluster);
  result.tokens_per_step = static_cast<double>(scenario.plan.training.global_batch_size *
                                               scenario.plan.training.sequence_length);
  const double capacity = Bounder(scenario).capacity_bytes();
  std::vector<Candidate> open;
  for (const Candidate& candidate : bounded(question, scenario, layouts.legal)) {
    if (!candidate.refusal.empty()) {
      count_refused(result, candidate, candidate.refusal);
    } else if (candidate.bound.peak_bytes > capacity) {
      ++result.counts.too_large;
    } else {
      open.push_back(candidate);
    }
  }
  std::stable_sort(open.begin(), open.end(), [](const Candidate& a, const Candidate& b) {
    return a.bound.step_time_s < b.bound.step_time_s;
  });
  Simulation simulation(question, result);
  simulation.run(open);
  sort_by_time(simulation.fitting);
  result.front = pareto(simulation.fitting);
  simulation.fitting.resize(std::min(simulation.fitting.size(), question.top));
  result.best = std::move(simulation.fitting);
  if (question.refine) result.refined = refine(question, scenario, result.best);
  return result;
}

namespace {

// ", rank_order=tp-dp-pp, data.all_reduce=ring", and ", data=ring" where all operations of a group
// that are named have one algorithm.
std::string further_text(const std::vector<Override>& changes) {
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
  std::string text = fmt::format("TP {}, PP {}", p.tensor, p.pipeline);
  if (p.interleave > 1) text += fmt::format(" x {}", p.interleave);
  if (p.schedule != (p.interleave > 1 ? "interleaved_1f1b" : "1f1b")) text += " " + p.schedule;
  if (p.context > 1) text += fmt::format(", CP {}", p.context);
  if (p.expert > 1) text += fmt::format(", EP {}", p.expert);
  if (layout.plan.architecture.has_experts() && p.tensor > 1)
    text += fmt::format(", ETP {}", p.expert_tensor_size());
  text += fmt::format(", DP {}, mbs {}, recompute {}, ZeRO {}", p.data, training.micro_batch_size,
                      recompute, p.zero_stage);
  return text + further_text(layout.further);
}

}  // namespace trainyard
