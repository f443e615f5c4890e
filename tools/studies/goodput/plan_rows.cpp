#include "tools/studies/goodput/plan_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"
#include "sim/render/text_table.hpp"
#include "sim/report/stage_summary.hpp"
#include "tools/studies/goodput/published_plan.hpp"
#include "tools/studies/goodput/row_json.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;
using Choices = std::vector<std::size_t>;  // one of each unknown

constexpr double kGigabyte = 1e9;

struct Predicted {
  double step_s = 0.0;
  double reduction_s = 0.0;
  double peak_bytes = 0.0;
};

// The first stage tells the reduction, as rank 0 logs it.
Predicted predicted(const PublishedPlan& plan, const std::vector<PlanUnknown>& unknowns,
                    const Choices& choices) {
  const Scenario scenario =
      read_scenario_document("plan_rows.json", plan_document(plan, unknowns, choices));
  const Result result = simulate(scenario);
  const RunView view = result.view();
  Predicted run{.step_s = result.timeline.makespan_s};
  run.reduction_s = stage_breakdown(view).front().mean.of(TimeShare::ExposedData);
  for (const StageMemory& stage : stage_memory(view))
    run.peak_bytes = std::max(run.peak_bytes, static_cast<double>(stage.peak.bytes));
  return run;
}

// The choices to predict besides those supposed: each unknown changed alone, with a name, and all
// at their fastest and all at their slowest, without one.
std::vector<std::pair<std::string, Choices>> other_choices(const std::vector<PlanUnknown>& unknowns,
                                                           const Choices& supposed) {
  std::vector<std::pair<std::string, Choices>> others;
  Choices fastest;
  Choices slowest;
  for (std::size_t i = 0; i < unknowns.size(); ++i) {
    fastest.push_back(0);
    slowest.push_back(unknowns[i].choices.size() - 1);
    for (std::size_t choice = 0; choice < unknowns[i].choices.size(); ++choice) {
      if (choice == supposed[i]) continue;
      Choices changed = supposed;
      changed[i] = choice;
      others.emplace_back(fmt::format("{}: {}", unknowns[i].what, unknowns[i].name(choice)),
                          changed);
    }
  }
  others.emplace_back("", fastest);
  others.emplace_back("", slowest);
  return others;
}

// Sets the predictions of a row whose published figures are set.
void predict(const PublishedPlan& plan, PlanRow& row) {
  const std::vector<PlanUnknown> unknowns = plan_unknowns(plan);
  Choices supposed;
  for (const PlanUnknown& unknown : unknowns) {
    supposed.push_back(unknown.supposed);
    row.supposed.push_back(
        fmt::format("{}: {}. {}", unknown.what, unknown.name(unknown.supposed), unknown.because));
  }
  const Predicted run = predicted(plan, unknowns, supposed);
  row.step_s.predicted = run.step_s;
  row.reduction_s.predicted = run.reduction_s;
  row.peak_bytes.predicted = run.peak_bytes;
  row.fastest_s = row.slowest_s = run.step_s;
  for (const auto& [change, choices] : other_choices(unknowns, supposed)) {
    const Predicted other = predicted(plan, unknowns, choices);
    row.fastest_s = std::min(row.fastest_s, other.step_s);
    row.slowest_s = std::max(row.slowest_s, other.step_s);
    if (!change.empty())
      row.changed.push_back(
          {.change = change, .step_s = other.step_s, .peak_bytes = other.peak_bytes});
  }
}

double mean(const std::vector<double>& values, double (*of)(double)) {
  double sum = 0.0;
  for (const double value : values) sum += of(value);
  return sum / static_cast<double>(values.size());
}

double size_of(double error) { return std::abs(error); }
double itself(double error) { return error; }

Json score_json(const std::vector<double>& errors) {
  return {{"rows", errors.size()}, {"mape", mean(errors, size_of)}, {"bias", mean(errors, itself)}};
}

std::string score_text(const std::vector<double>& errors) {
  return fmt::format("{} rows, MAPE {:.1f} %, bias {}", errors.size(),
                     100.0 * mean(errors, size_of), signed_percent(mean(errors, itself)));
}

// What the rows of one GPU say together.
struct GpuScore {
  std::vector<double> errors = {};
  std::map<std::string, std::vector<double>> changed = {};  // errors with one supposition changed
  std::vector<double> memory = {};
  const PlanRow* worst = nullptr;
  std::size_t within = 0;
};

std::map<std::string, GpuScore> scores_of(const std::vector<PlanRow>& rows) {
  std::map<std::string, GpuScore> scores;
  for (const PlanRow& row : rows) {
    GpuScore& score = scores[row.gpu];
    score.errors.push_back(row.step_s.error());
    if (row.peak_bytes.published > 0.0) score.memory.push_back(row.peak_bytes.error());
    for (const ChangedPlan& other : row.changed)
      score.changed[other.change].push_back(other.step_s / row.step_s.published - 1.0);
    if (score.worst == nullptr ||
        std::abs(row.step_s.error()) > std::abs(score.worst->step_s.error()))
      score.worst = &row;
    score.within += row.within() ? 1U : 0U;
  }
  return scores;
}

std::string scores_text(const std::vector<PlanRow>& rows) {
  std::string text;
  for (const auto& [gpu, score] : scores_of(rows)) {
    text += fmt::format("  {}: {}, worst {} ({}); the range has {} of them\n", gpu,
                        score_text(score.errors), signed_percent(score.worst->step_s.error()),
                        score.worst->id, score.within);
    for (const auto& [change, errors] : score.changed)
      text += fmt::format("    with {}: {}\n", change, score_text(errors));
    if (!score.memory.empty()) text += fmt::format("    memory: {}\n", score_text(score.memory));
  }
  return text;
}

// Gradient reduction and memory of the same runs.
std::string further_text(const std::vector<PlanRow>& rows) {
  TextTable table({"run", "reduction, s", "predicted", "memory, GB", "predicted", "error"});
  for (const PlanRow& row : rows)
    table.row({row.id, fmt::format("{:.4g}", row.reduction_s.published),
               fmt::format("{:.4g}", row.reduction_s.predicted),
               fmt::format("{:.2f}", row.peak_bytes.published / kGigabyte),
               fmt::format("{:.2f}", row.peak_bytes.predicted / kGigabyte),
               row.peak_bytes.published > 0.0 ? signed_percent(row.peak_bytes.error()) : ""});
  return "Reduction of gradients and memory of these plans\n" + table.text();
}

Json figure_json(const PlanFigure& figure) {
  return {{"published", figure.published}, {"predicted", figure.predicted}};
}

Json row_json(const PlanRow& row) {
  Json json{{"id", row.id},
            {"gpu", row.gpu},
            {"purpose", "judges"},
            {"quality", row.quality},
            {"source", row.source},
            {"published_s", row.step_s.published},
            {"predicted_s", row.step_s.predicted},
            {"error", row.step_s.error()},
            {"fastest_s", row.fastest_s},
            {"slowest_s", row.slowest_s},
            {"within", row.within()},
            {"gradient_reduction_s", figure_json(row.reduction_s)},
            {"peak_bytes", figure_json(row.peak_bytes)},
            {"changed", Json::array()},
            {"supposed", row.supposed}};
  for (const ChangedPlan& other : row.changed)
    json["changed"].push_back({{"change", other.change},
                               {"step_s", other.step_s},
                               {"error", other.step_s / row.step_s.published - 1.0},
                               {"peak_bytes", other.peak_bytes}});
  return json;
}

}  // namespace

std::string predict_plan(const Json& entry, std::vector<PlanRow>& rows) {
  const Json& measured = entry.at("measured");
  const auto step_s = number_at(measured, "step_s");
  if (!entry.at("setup").contains("stages") || !step_s || *step_s <= 0.0)
    return "it gives no plan, or no step time";
  PlanRow row{.id = entry.value("id", ""),
              .quality = entry.value("quality", ""),
              .source = entry.value("source", "")};
  row.step_s.published = *step_s;
  row.reduction_s.published = number_at(measured, "gradient_reduction_s").value_or(0.0);
  row.peak_bytes.published = number_at(measured, "peak_bytes").value_or(0.0);
  try {
    const PublishedPlan plan = read_plan(entry.at("setup"));
    row.gpu = plan_gpu(plan);
    row.supposed = plan_reasons(plan);
    predict(plan, row);
  } catch (const InputError& error) {
    return error.problems().front().problem;
  }
  rows.push_back(std::move(row));
  return "";
}

std::string plan_rows_text(const std::vector<PlanRow>& rows) {
  if (rows.empty()) return "";
  TextTable table({"run", "published, s", "predicted", "error", "fastest", "slowest", "within"});
  std::set<std::string> told;
  std::string supposed;
  for (const PlanRow& row : rows) {
    table.row({row.id, fmt::format("{:.4g}", row.step_s.published),
               fmt::format("{:.4g}", row.step_s.predicted), signed_percent(row.step_s.error()),
               fmt::format("{:.4g}", row.fastest_s), fmt::format("{:.4g}", row.slowest_s),
               row.within() ? "yes" : "no"});
    for (const std::string& reason : row.supposed)
      if (told.insert(reason).second) supposed += wrapped("  " + reason, 4);
  }
  return "\nTraining plans: their steps, none of which calibrates\n" + table.text() +
         scores_text(rows) + further_text(rows) + "Supposed\n" + supposed;
}

Json plan_rows_json(const std::vector<PlanRow>& rows) {
  Json json{{"rows", Json::array()}, {"by_gpu", Json::object()}};
  for (const PlanRow& row : rows) json["rows"].push_back(row_json(row));
  for (const auto& [gpu, score] : scores_of(rows)) {
    Json& entry = json["by_gpu"][gpu];
    entry = score_json(score.errors);
    entry["worst"] = {{"id", score.worst->id}, {"error", score.worst->step_s.error()}};
    entry["within"] = score.within;
    for (const auto& [change, errors] : score.changed)
      entry["changed"][change] = score_json(errors);
    if (!score.memory.empty()) entry["memory"] = score_json(score.memory);
  }
  return json;
}

}  // namespace trainyard
