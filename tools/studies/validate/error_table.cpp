#include "tools/studies/validate/error_table.hpp"

#include <cmath>
#include <map>

#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/measured_error.hpp"
#include "tools/studies/validate/score.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// To a thousandth: what a rerun on another machine gives alike.
double rounded(double share) { return std::round(1e3 * share) / 1e3; }

void add(Json& kinds, Json entry, const std::vector<double>& errors) {
  if (errors.size() < kRunsLeast) return;
  const Score score = score_of(errors);
  entry.update({{"runs", score.rows},
                {"mape", rounded(score.mape)},
                {"bias", rounded(score.bias)},
                {"p90", rounded(score.p90)}});
  kinds.push_back(std::move(entry));
}

}  // namespace

Json error_table(const std::vector<Outcome>& outcomes, const std::string& source) {
  std::map<RunKind, std::vector<double>> of_kind;
  std::map<std::string, std::vector<double>> of_generation;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.predicted() || outcome.scenario.is_null()) continue;
    const RunKind kind = kind_of(read_scenario_document(outcome.row.id, outcome.scenario));
    of_kind[kind].push_back(outcome.error());
    of_generation[kind.generation].push_back(outcome.error());
  }
  Json kinds = Json::array();
  for (const auto& [kind, errors] : of_kind) {
    add(kinds, {{"generation", kind.generation}, {"bits", kind.bits}, {"experts", kind.experts}},
        errors);
  }
  for (const auto& [generation, errors] : of_generation) {
    add(kinds, {{"generation", generation}}, errors);
  }
  return {{"source", source}, {"kinds", std::move(kinds)}};
}

}  // namespace trainyard
