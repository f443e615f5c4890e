#include "tools/studies/validate/goodput/plan_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"
#include "sim/render/text_table.hpp"
#include "sim/report/stage_summary.hpp"
#include "tools/studies/validate/goodput/published_plan.hpp"
#include "tools/studies/validate/goodput/row_json.hpp"

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

// The first and the last choice among those that were fixed before the first prediction. Choices
// are listed from the fastest to the slowest; at least one has no evidence.
std::pair<std::size_t, std::size_t> ends_of(const PlanUnknown& unknown) {
  std::size_t first = 0;
  std::size_t last = unknown.choices.size() - 1;
  while (!unknown.evidence(first).empty()) ++first;
  while (!unknown.evidence(last).empty()) --last;
  return {first, last};
}

// A prediction besides the supposed one.
struct OtherChoices {
  std::string change;
  std::string evidence = {};
  Choices choices;
};

// Each unknown changed alone, and all at their fastest and all at their slowest.
std::vector<OtherChoices> other_choices(const std::vector<PlanUnknown>& unknowns,
                                        const Choices& supposed) {
  std::vector<OtherChoices> others;
  OtherChoices fastest{.change = "all: the fastest", .choices = {}};
  OtherChoices slowest{.change = "all: the slowest", .choices = {}};
  for (std::size_t i = 0; i < unknowns.size(); ++i) {
    const PlanUnknown& unknown = unknowns[i];
    const auto [first, last] = ends_of(unknown);
    fastest.choices.push_back(first);
    slowest.choices.push_back(last);
    for (std::size_t choice = 0; choice < unknown.choices.size(); ++choice) {
      if (choice == supposed[i]) continue;
      OtherChoices other{.change = fmt::format("{}: {}", unknown.what, unknown.name(choice)),
                         .evidence = unknown.evidence(choice),
                         .choices = supposed};
      other.choices[i] = choice;
      others.push_back(std::move(other));
    }
  }
  others.push_back(std::move(fastest));
  others.push_back(std::move(slowest));
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
  row.scenario = plan_document(plan, unknowns, supposed);
  const Predicted run = predicted(plan, unknowns, supposed);
  row.step_s.predicted = run.step_s;
  row.reduction_s.predicted = run.reduction_s;
  row.peak_bytes.predicted = run.peak_bytes;
  row.fastest_s = row.slowest_s = run.step_s;
  for (const OtherChoices& other : other_choices(unknowns, supposed)) {
    const Predicted changed = predicted(plan, unknowns, other.choices);
    row.changed.push_back({.change = other.change,
                           .evidence = other.evidence,
                           .step_s = changed.step_s,
                           .reduction_s = changed.reduction_s,
                           .peak_bytes = changed.peak_bytes});
    // Choices that were added after seeing the errors could widen the range until it holds.
    if (!other.evidence.empty()) continue;
    row.fastest_s = std::min(row.fastest_s, changed.step_s);
    row.slowest_s = std::max(row.slowest_s, changed.step_s);
  }
}

double mean(const std::vector<double>& values, double (*of)(double)) {
  double sum = 0.0;
  for (const double value : values) sum += of(value);
  return sum / static_cast<double>(values.size());
}

double size_of(double error) { return std::abs(error); }
double itself(double error) { return error; }

std::string score_text(const std::vector<double>& errors) {
  return fmt::format("{} rows, MAPE {:.1f} %, bias {}", errors.size(),
                     100.0 * mean(errors, size_of), signed_percent(mean(errors, itself)));
}

// Errors of rows under the same assumptions.
struct Errors {
  std::vector<double> step = {};
  std::vector<double> memory = {};
  const PlanRow* worst = nullptr;
  double worst_error = 0.0;
  std::string evidence = {};

  void add(const PlanRow& row, double step_s, double peak_bytes) {
    const double error = step_s / row.step_s.published - 1.0;
    step.push_back(error);
    if (row.peak_bytes.published > 0.0)
      memory.push_back(peak_bytes / row.peak_bytes.published - 1.0);
    if (worst != nullptr && std::abs(error) <= std::abs(worst_error)) return;
    worst = &row;
    worst_error = error;
  }
};

// The errors of all rows of one GPU.
struct GpuScore {
  Errors supposed = {};
  std::map<std::string, Errors> changed = {};  // by what is changed
  std::size_t within = 0;
};

std::map<std::string, GpuScore> scores_of(const std::vector<PlanRow>& rows) {
  std::map<std::string, GpuScore> scores;
  for (const PlanRow& row : rows) {
    GpuScore& score = scores[row.gpu];
    score.supposed.add(row, row.step_s.predicted, row.peak_bytes.predicted);
    score.within += row.within() ? 1U : 0U;
    for (const ChangedPlan& other : row.changed) {
      score.changed[other.change].add(row, other.step_s, other.peak_bytes);
      score.changed[other.change].evidence = other.evidence;
    }
  }
  return scores;
}

std::string errors_text(const Errors& errors) {
  std::string text = fmt::format("{}, worst {} ({})", score_text(errors.step),
                                 signed_percent(errors.worst_error), errors.worst->id);
  if (!errors.memory.empty())
    text += fmt::format("; memory: bias {}", signed_percent(mean(errors.memory, itself)));
  return text;
}

std::string scores_text(const std::vector<PlanRow>& rows) {
  std::string text;
  for (const auto& [gpu, score] : scores_of(rows)) {
    text += wrapped(fmt::format("  {} as supposed: {}", gpu, errors_text(score.supposed)), 4);
    text += fmt::format("    {} of them within the range\n", score.within);
    for (const auto& [change, errors] : score.changed)
      text += wrapped(
          fmt::format("  {} with {}{}: {}", gpu, change,
                      errors.evidence.empty() ? "" : " (seen afterwards)", errors_text(errors)),
          4);
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

Json errors_json(const Errors& errors) {
  Json json{{"rows", errors.step.size()},
            {"mape", mean(errors.step, size_of)},
            {"bias", mean(errors.step, itself)},
            {"worst", {{"id", errors.worst->id}, {"error", errors.worst_error}}}};
  if (!errors.memory.empty()) json["memory_bias"] = mean(errors.memory, itself);
  if (!errors.evidence.empty()) json["seen_afterwards"] = errors.evidence;
  return json;
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
            {"supposed", row.supposed},
            {"scenario", row.scenario}};
  for (const ChangedPlan& other : row.changed)
    json["changed"].push_back({{"change", other.change},
                               {"step_s", other.step_s},
                               {"error", other.step_s / row.step_s.published - 1.0},
                               {"gradient_reduction_s", other.reduction_s},
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
    entry = errors_json(score.supposed);
    entry["within"] = score.within;
    for (const auto& [change, errors] : score.changed)
      entry["changed"][change] = errors_json(errors);
  }
  return json;
}

}  // namespace trainyard
