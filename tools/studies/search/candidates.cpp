#include "tools/studies/search/candidates.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/base/error.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/processes.hpp"
#include "sim/engine/simgrid/solver_module.hpp"
#include "sim/report/result_json.hpp"
#include "tools/studies/search/space.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// Layouts that one worker process bounds. The worker caches the times of its collectives, so a
// large number reuses more of them, and a small number balances the load better.
constexpr std::size_t kBoundsAtOnce = 128;
// The bounds of a piece of the layouts, as a JSON array for the parent process. One bounder serves
// all layouts, because they share the cluster of their family.
std::string bounds_text(const SearchQuestion& question, const Bounder& bounder,
                        const std::vector<const Layout*>& layouts, std::size_t begin) {
  const std::size_t end = std::min(begin + kBoundsAtOnce, layouts.size());
  Json rows = Json::array();
  for (std::size_t i = begin; i < end; ++i) {
    try {
      const TrainingPlan& plan = layouts[i]->plan;
      // A bound of zero prunes nothing. Copies that do not divide are reported by the reader when
      // the layout is simulated.
      const bool boundless = question.exhaustive || !replicas_divide_into_copies(plan);
      const LayoutBound bound = boundless ? LayoutBound{} : bounder.bound(plan);
      rows.push_back({{"step_time_s", bound.step_time_s}, {"peak_bytes", bound.peak_bytes}});
    } catch (const InputError& error) {
      rows.push_back(error.what());
    } catch (const RunError& error) {  // an algorithm that the group cannot run
      rows.push_back(error.what());
    }
  }
  return to_line(rows);
}

}  // namespace

std::vector<Candidate> bounded(const SearchQuestion& question, const Scenario& scenario,
                               const std::vector<const Layout*>& layouts,
                               const std::function<bool()>& end) {
  std::vector<Candidate> candidates;
  for (const Layout* layout : layouts)
    candidates.push_back({.layout = layout, .bound = {}, .refusal = {}});
  const std::size_t pieces = (layouts.size() + kBoundsAtOnce - 1) / kBoundsAtOnce;
  std::size_t done = 0;
  load_fluid_solver();
  if (unbounded_part(scenario)) {
    for (Candidate& candidate : candidates) candidate.reached = true;
    return candidates;
  }
  // The bounder also reads the GPU's profile. The workers that simulate later inherit it.
  const Bounder bounder(scenario);
  run_in_processes(pieces, {.work =
                                [&](std::size_t i) {
                                  return bounds_text(question, bounder, layouts, i * kBoundsAtOnce);
                                },
                            .done =
                                [&](std::size_t i, const Answer& answer) {
                                  if (answer.kind != Answer::Kind::Fine)
                                    throw RunError("the bounds of a layout: " + answer.text);
                                  std::size_t number = i * kBoundsAtOnce;
                                  for (const Json& row : parse_unchecked_json(answer.text)) {
                                    Candidate& candidate = candidates[number++];
                                    candidate.reached = true;
                                    if (row.is_string()) {
                                      candidate.refusal = row;
                                    } else {
                                      candidate.bound = {row["step_time_s"], row["peak_bytes"]};
                                    }
                                  }
                                  if (question.progress)
                                    question.progress("bounding", static_cast<double>(++done) /
                                                                      static_cast<double>(pieces));
                                },
                            .processes = question.processes,
                            .end = end});
  return candidates;
}

std::vector<Json> simulated(const SearchQuestion& question,
                            const std::vector<const Layout*>& layouts,
                            const std::function<bool()>& end) {
  std::vector<Variant> variants;
  for (const Layout* layout : layouts) variants.push_back(layout->variant);
  run_batch(variants, {.journal = question.journal,
                       .processes = question.processes,
                       .end = end,
                       .redone = question.redone});
  std::map<std::string, const Json*> known;
  for (const Json& row : question.journal.rows()) known[row["key"].get<std::string>()] = &row;
  std::vector<Json> rows;
  for (const Variant& variant : variants) {
    const auto found = known.find(variant_key(variant));
    rows.push_back(found == known.end() ? Json() : *found->second);
  }
  return rows;
}

void sort_by_time(std::vector<FoundLayout>& layouts) {
  std::sort(layouts.begin(), layouts.end(), [](const FoundLayout& a, const FoundLayout& b) {
    const auto key = [](const FoundLayout& found) {
      return std::tuple(found.figures.step_time_s / tokens_of(found.layout),
                        found.figures.peak_bytes, variant_key(found.layout.variant));
    };
    return key(a) < key(b);
  });
}

}  // namespace trainyard
