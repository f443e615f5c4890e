#include "tools/studies/compare/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// Whether a field has no effect on the run.
bool is_remark(const std::string& path) {
  constexpr std::string_view kRemarks[] = {"description",  "source",           "assumptions",
                                           "published",    "applied_defaults", "model.name",
                                           "model.source", "cluster.name",     "cluster.source"};
  return std::find(std::begin(kRemarks), std::end(kRemarks), path) != std::end(kRemarks);
}

// A resolved scenario divided into the parts that are compared. Each field of a section is a part;
// a field within it, such as a node, is not divided further.
std::map<std::string, Json> parts_of(const Json& scenario) {
  std::map<std::string, Json> parts;
  for (const auto& [key, value] : scenario.items()) {
    if (is_remark(key)) continue;
    if (!value.is_object()) {
      parts[key] = value;
      continue;
    }
    for (const auto& [inner, part] : value.items()) {
      const std::string path = key + "." + inner;
      if (!is_remark(path)) parts[path] = part;
    }
  }
  return parts;
}

// The position of an input in the order of changes. Sizes that must fit each other are neighbours,
// because the layouts between them are often not legal.
std::size_t rank_of(const std::string& path) {
  constexpr std::array<std::string_view, 14> kOrder = {"model",
                                                       "cluster.node",
                                                       "cluster.fabric",
                                                       "cluster.faults",
                                                       "cluster.nodes",
                                                       "parallelism.tensor",
                                                       "parallelism.context",
                                                       "parallelism.pipeline",
                                                       "parallelism.schedule",
                                                       "parallelism.interleave",
                                                       "parallelism.data",
                                                       "training.micro_batch_size",
                                                       "training.global_batch_size",
                                                       "parallelism"};
  for (std::size_t i = 0; i < kOrder.size(); ++i) {
    if (path == kOrder.at(i) || path.starts_with(std::string(kOrder.at(i)) + ".")) return i;
  }
  return kOrder.size();
}

std::vector<InputDifference> differences_of(const std::vector<Json>& scenarios) {
  std::vector<std::map<std::string, Json>> parts;
  std::set<std::string> paths;
  for (const Json& scenario : scenarios) {
    parts.push_back(parts_of(scenario));
    for (const auto& [path, value] : parts.back()) paths.insert(path);
  }
  std::vector<InputDifference> differences;
  for (const std::string& path : paths) {
    InputDifference difference{.path = path, .values = {}};
    for (const auto& side : parts) {
      const auto found = side.find(path);
      difference.values.push_back(found == side.end() ? Json() : found->second);
    }
    const auto& values = difference.values;
    const bool same = std::all_of(values.begin(), values.end(),
                                  [&](const Json& value) { return value == values.front(); });
    if (!same) differences.push_back(std::move(difference));
  }
  std::stable_sort(differences.begin(), differences.end(),
                   [](const auto& a, const auto& b) { return rank_of(a.path) < rank_of(b.path); });
  return differences;
}

// The changes that lead from the first side to side `to`, in order. An input that the side does not
// have becomes null, which removes the key (scenarios/reader/overrides.hpp).
std::vector<Override> changes_to(const std::vector<InputDifference>& differences, std::size_t to) {
  std::vector<Override> way;
  for (const InputDifference& difference : differences) {
    if (difference.values[to] == difference.values.front()) continue;
    way.push_back({.path = difference.path, .value = difference.values[to].dump()});
  }
  return way;
}

// The first side with the first `count` changes.
Variant after(const Variant& first, const std::vector<Override>& way, std::size_t count) {
  Variant variant = first;
  variant.changes.insert(variant.changes.end(), way.begin(),
                         way.begin() + static_cast<std::ptrdiff_t>(count));
  return variant;
}

// Simulates the variants in child processes. Returns the rows by the key of their variant.
std::map<std::string, Json> run_all(const std::vector<Variant>& variants,
                                    const CompareOptions& options) {
  Journal journal("");
  run_batch(variants, {.journal = journal,
                       .processes = options.processes,
                       .progress = options.progress,
                       .end = options.end});
  std::map<std::string, Json> rows;
  for (const Json& row : journal.rows()) rows[row["key"].get<std::string>()] = row;
  return rows;
}

// The steps from the first side to side `to`. A combination that is not a legal scenario, or has no
// result, is joined with the next change.
std::vector<ChangeStep> steps_to(const Comparison& comparison, std::size_t to,
                                 const std::map<std::string, Json>& rows) {
  const std::vector<Override> way = changes_to(comparison.differences, to);
  std::vector<ChangeStep> steps;
  ChangeStep step;
  for (std::size_t count = 1; count <= way.size(); ++count) {
    step.paths.push_back(way[count - 1].path);
    const bool last = count == way.size();
    const auto found = rows.find(variant_key(after(comparison.sides[0].variant, way, count)));
    if (!last && found == rows.end()) continue;
    // With all changes made, the scenario is the other side, which has been simulated already.
    const RowFigures figures = last ? comparison.sides[to].figures : row_figures(found->second);
    if (!figures.ran) continue;
    step.step_time_s = figures.step_time_s;
    steps.push_back(std::exchange(step, {}));
  }
  return steps;
}

// Simulates the scenarios between the first side and each other side, and computes the steps. The
// gain of a change is its gain after all changes before it, so the order matters.
void explain(Comparison& comparison, const CompareOptions& options) {
  std::vector<Variant> between;
  for (std::size_t to = 1; to < comparison.sides.size(); ++to) {
    if (!comparison.sides[to].figures.ran || !comparison.sides[0].figures.ran) continue;
    const std::vector<Override> way = changes_to(comparison.differences, to);
    for (std::size_t count = 1; count < way.size(); ++count)
      between.push_back(after(comparison.sides[0].variant, way, count));
  }
  const std::map<std::string, Json> rows = run_all(between, options);
  comparison.steps.resize(comparison.sides.size());
  for (std::size_t to = 1; to < comparison.sides.size(); ++to) {
    if (!comparison.sides[to].figures.ran || !comparison.sides[0].figures.ran) continue;
    if (changes_to(comparison.differences, to).size() > 1)
      comparison.steps[to] = steps_to(comparison, to, rows);
  }
}

}  // namespace

std::optional<RatioInterval> measured_ratio(const Comparison& comparison,
                                            const ComparedSide& side) {
  const ComparedSide& first = comparison.sides.front();
  if (&side == &first || !side.figures.interval || !first.figures.interval) return std::nullopt;
  return ratio_of(*side.figures.interval, *first.figures.interval);
}

Comparison compare(const std::vector<Variant>& variants, const CompareOptions& options) {
  Comparison comparison;
  std::vector<Json> scenarios;
  for (const Variant& variant : variants) scenarios.push_back(resolved(load_variant(variant)));
  const std::map<std::string, Json> rows = run_all(variants, options);
  for (const Variant& variant : variants) {
    const std::size_t number = comparison.sides.size();
    const Json& row = rows.at(variant_key(variant));
    comparison.sides.push_back(
        {.name = number < 26 ? std::string(1, static_cast<char>('A' + static_cast<int>(number)))
                             : fmt::format("S{}", number + 1),
         .variant = variant,
         .row = row,
         .figures = row_figures(row)});
  }
  comparison.differences = differences_of(scenarios);
  explain(comparison, options);
  return comparison;
}

}  // namespace trainyard
