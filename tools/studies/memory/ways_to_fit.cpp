#include "tools/studies/memory/ways_to_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/base/error.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/processes.hpp"
#include "sim/engine/simgrid/solver_module.hpp"
#include "sim/render/text_table.hpp"
#include "sim/report/result_json.hpp"
#include "sim/report/stage_summary.hpp"
#include "tools/studies/memory/changes.hpp"
#include "tools/studies/search/bounds.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;
using Chosen = std::vector<std::size_t>;  // numbers of changes

// The effect of one change alone, as far as it is known.
struct Effect {
  bool possible = false;
  double freed_bytes = 0.0;
  double time_factor = 1.0;
};

// A set of changes made together: checked, but not simulated yet.
struct Candidate {
  Chosen chosen;
  WayToFit way;
  double least_bytes = 0.0;  // proven lower bound of the peak; 0: not known
};

// Runs in a child process, which returns the figures as one line of JSON.
std::string simulated(const Scenario& scenario) {
  const FitFigures figures = fit_figures(scenario, simulate(scenario, {}));
  return to_line(Json{figures.peak_bytes, figures.step_time_s, figures.gpus, figures.fits});
}

// The search in rounds: all single changes first, then pairs, then triples, and so on until some
// set fits or a limit is reached. The effects of the single changes order the larger sets.
class Search {
 public:
  Search(const FitQuestion& question, const Scenario& scenario, const FitFigures& now)
      : question_(question), scenario_(scenario) {
    found_.now = now;
    effects_.resize(fit_changes().size());
    // Without a bound, every set that is tried is simulated.
    if (unbounded_part(scenario)) return;
    bounder_.emplace(scenario);
    least_now_ = bounder_->bound(scenario.plan).peak_bytes;
  }

  FitSearch run() {
    std::vector<Chosen> alone;
    for (std::size_t i = 0; i < effects_.size(); ++i) alone.push_back({i});
    const std::vector<Candidate> tried = attempt(alone, effects_.size());
    for (const Candidate& candidate : tried) {
      learn(candidate);
      found_.singles.push_back(candidate.way);
    }
    found_.changes_at_once = 1;
    keep_those_that_fit(tried);
    for (std::size_t size = 2; size <= question_.changes_most && found_.ways.empty(); ++size) {
      if (spent()) break;
      // sets of one size; later sets in the order are less promising
      constexpr std::size_t kMost = 16;
      found_.changes_at_once = size;
      keep_those_that_fit(attempt(combinations(size), kMost));
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool spent() const { return found_.runs >= question_.runs_most; }

  // The plan with the changes. There is no value if a change is not possible, or if the scenario's
  // checks refuse the plan.
  std::optional<Candidate> prepare(const Chosen& chosen) const {
    Knobs knobs = knobs_of(scenario_);
    for (const std::size_t i : chosen)
      if (!fit_changes()[i].apply(knobs)) return std::nullopt;
    Candidate candidate{.chosen = chosen,
                        .way = {.changes = difference(scenario_, knobs), .figures = {}}};
    try {
      const Scenario changed = changed_scenario(candidate.way);
      // The bounder holds for the cluster of the original scenario only.
      const bool same_cluster = gpu_count(changed.cluster) == gpu_count(scenario_.cluster);
      if (bounder_ && same_cluster && !unbounded_part(changed))
        candidate.least_bytes = bounder_->bound(changed.plan).peak_bytes;
    } catch (const InputError&) {
      return std::nullopt;
    }
    // A lower bound above the capacity proves that the plan does not fit, without a simulation.
    if (candidate.least_bytes > static_cast<double>(found_.now.capacity_bytes))
      candidate.way.figures.peak_bytes = static_cast<std::int64_t>(candidate.least_bytes);
    return candidate;
  }

  [[nodiscard]] Scenario changed_scenario(const WayToFit& way) const {
    return load_variant(question_.scenario, way.changes);
  }

  // Prepares the choices in order and simulates those that their lower bound does not exclude,
  // `most` simulations at most. Choices that are not possible are skipped.
  std::vector<Candidate> attempt(const std::vector<Chosen>& choices, std::size_t most) {
    std::vector<Candidate> all;
    std::vector<std::size_t> open;
    most = std::min(most, question_.runs_most - found_.runs);
    std::size_t looks = 8 * most;  // each check lowers the plan to compute its bound
    for (const Chosen& chosen : choices) {
      if (open.size() == most || looks-- == 0) break;
      std::optional<Candidate> candidate = prepare(chosen);
      if (!candidate) continue;
      // `prepare` sets a peak only where the bound excludes the plan.
      if (candidate->way.figures.peak_bytes == 0) open.push_back(all.size());
      all.push_back(std::move(*candidate));
    }
    simulate(all, open);
    std::erase_if(all, [](const Candidate& candidate) {
      // refused by the simulation
      return !candidate.way.simulated && candidate.way.figures.peak_bytes == 0;
    });
    return all;
  }

  void simulate(std::vector<Candidate>& all, const std::vector<std::size_t>& open) {
    std::size_t done = 0;
    const auto take = [&](std::size_t number, const Answer& answer) {
      if (question_.progress)
        question_.progress(static_cast<double>(++done) / static_cast<double>(open.size()));
      if (answer.kind != Answer::Kind::Fine) return;
      const Json figures = parse_unchecked_json(answer.text);
      ++found_.runs;
      WayToFit& way = all[open[number]].way;
      way.simulated = true;
      way.figures = {.peak_bytes = figures[0],
                     .capacity_bytes = found_.now.capacity_bytes,
                     .step_time_s = figures[1],
                     .gpus = figures[2],
                     .fits = figures[3]};
    };
    // The child processes inherit what is loaded before they are forked.
    load_fluid_solver();
    run_in_processes(
        open.size(),
        {.work = [&](std::size_t i) { return simulated(changed_scenario(all[open[i]].way)); },
         .done = take,
         .processes = question_.processes,
         .end = question_.end});
  }

  // Records the effect of a single change. A change whose bound excludes it is not simulated; its
  // effect is estimated by the difference of the bounds, and its time by 1, because a bound tells
  // nothing of time.
  void learn(const Candidate& candidate) {
    const FitFigures& figures = candidate.way.figures;
    Effect& effect = effects_[candidate.chosen.front()];
    effect.possible = true;
    effect.freed_bytes = candidate.way.simulated
                             ? static_cast<double>(found_.now.peak_bytes - figures.peak_bytes)
                             : least_now_ - candidate.least_bytes;
    if (candidate.way.simulated)
      effect.time_factor = figures.gpu_seconds() / found_.now.gpu_seconds();
  }

  void keep_those_that_fit(const std::vector<Candidate>& tried) {
    for (const Candidate& candidate : tried)
      if (candidate.way.figures.fits) found_.ways.push_back(candidate.way);
    std::stable_sort(found_.ways.begin(), found_.ways.end(),
                     [](const WayToFit& a, const WayToFit& b) {
                       return a.figures.gpu_seconds() < b.figures.gpu_seconds();
                     });
  }

  [[nodiscard]] bool goes_with(const Chosen& chosen, std::size_t change) const {
    if (!effects_[change].possible || effects_[change].freed_bytes <= 0.0) return false;
    return std::none_of(chosen.begin(), chosen.end(), [&](std::size_t other) {
      return fit_changes()[other].kind == fit_changes()[change].kind;
    });
  }

  // Combinations of `size` changes of different kinds that each free memory alone. First come those
  // whose effects add up to enough memory, the quickest first, then the others, the largest saving
  // first. The sums and products of single effects only order the candidates; they are never
  // reported. About 30 changes have fewer than 5000 triples, so all sets are made and sorted.
  [[nodiscard]] std::vector<Chosen> combinations(std::size_t size) const {
    struct Promise {
      Chosen chosen;
      double missing_bytes = 0.0;
      double time_factor = 1.0;
    };
    std::vector<Promise> all;
    const auto missing = static_cast<double>(found_.now.peak_bytes - found_.now.capacity_bytes);
    const std::function<void(std::size_t, const Promise&)> extend = [&](std::size_t from,
                                                                        const Promise& so_far) {
      if (so_far.chosen.size() == size) {
        all.push_back(so_far);
        return;
      }
      for (std::size_t i = from; i < effects_.size(); ++i) {
        if (!goes_with(so_far.chosen, i)) continue;
        Promise longer = so_far;
        longer.chosen.push_back(i);
        longer.missing_bytes -= effects_[i].freed_bytes;
        longer.time_factor *= effects_[i].time_factor;
        extend(i + 1, longer);
      }
    };
    extend(0, {.chosen = {}, .missing_bytes = missing});
    std::stable_sort(all.begin(), all.end(), [](const Promise& a, const Promise& b) {
      const bool enough = a.missing_bytes <= 0.0;
      if (enough != (b.missing_bytes <= 0.0)) return enough;
      return enough ? a.time_factor < b.time_factor : a.missing_bytes < b.missing_bytes;
    });
    std::vector<Chosen> chosen;
    chosen.reserve(all.size());
    for (Promise& promise : all) chosen.push_back(std::move(promise.chosen));
    return chosen;
  }

  const FitQuestion& question_;
  const Scenario& scenario_;
  std::optional<Bounder> bounder_;  // if its bounds hold for the scenario
  double least_now_ = 0.0;
  std::vector<Effect> effects_;  // by change
  FitSearch found_;
};

}  // namespace

FitFigures fit_figures(const Scenario& scenario, const Result& run) {
  const RunView view = run.view();
  const std::vector<StageMemory> stages = stage_memory(view);
  const StageMemory* worst = worst_stage(stages);
  const std::optional<HostMemory> host = host_memory(view);
  return {.peak_bytes = worst == nullptr ? 0 : worst->peak.bytes,
          .capacity_bytes = worst == nullptr ? 0 : worst->capacity_bytes,
          .step_time_s = view.step_s(),
          .gpus = gpu_count(scenario.cluster),
          .fits = (worst == nullptr || worst->fits) && (!host || host->fits)};
}

FitSearch ways_to_fit(const FitQuestion& question, const Scenario& scenario,
                      const FitFigures& now) {
  return Search(question, scenario, now).run();
}

std::string first_way_line(const FitSearch& search) {
  if (search.ways.empty())
    return fmt::format("No change that was tried makes it fit ({} simulations).", search.runs);
  const WayToFit& first = search.ways.front();
  return fmt::format("The least change that fits: {}; {}, one step takes {} ({})",
                     to_text(first.changes),
                     to_text(Bytes{static_cast<double>(first.figures.peak_bytes)}),
                     to_text(Seconds{first.figures.step_time_s}),
                     signed_percent(first.figures.step_time_s / search.now.step_time_s - 1.0));
}

std::string to_text(const std::vector<Override>& changes) {
  std::string text;
  for (const Override& change : changes)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", change.path, change.value);
  return text;
}

}  // namespace trainyard
