// Published training plans against predictions: the step, the reduction of the gradients and the
// memory.
//
// No row calibrates a constant. What a row leaves out is supposed (published_plan.hpp), and each
// unknown is also changed alone, and all together to their fastest and to their slowest choices.
// The fastest and the slowest of these predictions are the range of what is not stated. A choice
// that was added because of these rows' own figures is reported as such and is not in the range.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace trainyard {

// One figure of a row beside its prediction.
struct PlanFigure {
  double published = 0.0;
  double predicted = 0.0;
  [[nodiscard]] double error() const { return predicted / published - 1.0; }
};

// A prediction with one assumption changed, or with all at one end of the range.
struct ChangedPlan {
  std::string change;         // "precision: fp32"
  std::string evidence = {};  // why it was added after the first prediction; empty: fixed before
  double step_s = 0.0;
  double reduction_s = 0.0;
  double peak_bytes = 0.0;
};

struct PlanRow {
  std::string id;
  std::string gpu = {};  // "GH200"
  std::string quality = {}, source = {};
  PlanFigure step_s = {};
  PlanFigure reduction_s = {};  // of the gradients; 0 where the row has none, or one replica
  PlanFigure peak_bytes = {};   // of the fullest GPU, as nvidia-smi shows it
  double fastest_s = 0.0;
  double slowest_s = 0.0;
  std::vector<ChangedPlan> changed = {};
  std::vector<std::string> supposed = {};
  nlohmann::ordered_json scenario = {};  // as supposed; `trainyard run` takes it

  [[nodiscard]] bool within() const {
    return fastest_s <= step_s.published && step_s.published <= slowest_s;
  }
};

// Predicts a row {id, setup, measured, source, quality} of a plan into `rows`; otherwise returns
// the reason why not. Throws InputError for a data file that is malformed.
[[nodiscard]] std::string predict_plan(const nlohmann::ordered_json& entry,
                                       std::vector<PlanRow>& rows);

// Tables, and MAPE, bias and worst row by GPU; empty without rows.
[[nodiscard]] std::string plan_rows_text(const std::vector<PlanRow>& rows);
[[nodiscard]] nlohmann::ordered_json plan_rows_json(const std::vector<PlanRow>& rows);

}  // namespace trainyard
