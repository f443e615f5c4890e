#include "tools/studies/validate/goodput/energy_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include "kernels/gpu.hpp"
#include "models/power/power.hpp"
#include "models/reliability/accounting.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/render/text_table.hpp"
#include "sim/report/energy_figures.hpp"
#include "tools/studies/validate/goodput/row_json.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

const Json& assumptions() {
  static const Json document = study_data("energy_rows");
  return document;
}

// The GPU of kernels/profiles or models/power/data whose name in the rows begins with a text.
std::string gpu_of(const Json& setup) {
  const std::string name = setup.value("gpu", "");
  for (const auto& [prefix, gpu] : assumptions().at("gpus").items())
    if (name.starts_with(prefix)) return gpu.get<std::string>();
  return "";
}

bool calibrates(const std::string& id) {
  const Json& rows = assumptions().at("calibrate");
  return std::find(rows.begin(), rows.end(), id) != rows.end();
}

void finish(EnergyRow row, std::vector<EnergyRow>& rows) {
  row.error = row.predicted / row.published - 1.0;
  rows.push_back(std::move(row));
}

// The node power of a benchmark that is not simulated. On several nodes its GPUs wait for the part
// of the time that scaling loses.
double supposed_node_w(const PowerData& power, const Json& shares, double nodes) {
  const double busy_w = kernel_power_w(power.gpu, {.tensor = shares.at("tensor").get<double>(),
                                                   .memory = shares.at("memory").get<double>()});
  const double busy = nodes > 1.0 ? assumptions().at("busy_on_nodes").get<double>() : 1.0;
  const double waiting_w = power.gpu.idle_w + power.gpu.active_w;
  return node_power_w(power, kGpusPerNode, kGpusPerNode,
                      kGpusPerNode * (busy * busy_w + (1.0 - busy) * waiting_w));
}

// Reads the number that follows a name in "TP4 PP8 DP16, micro-batch 2"; nothing where there is
// none.
std::optional<double> size_in(const std::string& text, const std::string& name) {
  const std::size_t at = text.find(name);
  if (at == std::string::npos) return {};
  const double size = std::strtod(text.c_str() + at + name.size(), nullptr);
  return size > 0.0 ? std::optional(size) : std::nullopt;
}

// The scenario of a language model: that of its benchmark, with the nodes and sizes of the row. The
// data-parallel size follows from the GPUs that the other sizes leave.
Scenario scenario_of(const Json& benchmark, const std::string& gpu, const Json& setup) {
  Json document = benchmark.at("scenario");
  const double nodes = setup.at("nodes").get<double>();
  document["cluster"]["node"] = assumptions().at("nodes").at(gpu);
  document["cluster"]["nodes"] = static_cast<std::int64_t>(nodes);
  document["power"] = Json::object();
  const std::string layout = setup.value("parallelism", "");
  Json& sizes = document["parallelism"];
  const auto size = [&](const char* name, const char* field) {
    if (const auto value = size_in(layout, name)) sizes[field] = static_cast<std::int64_t>(*value);
    return sizes.value(field, 1.0);
  };
  const double shared = size("TP", "tensor") * size("PP", "pipeline") * size("CP", "context");
  sizes["data"] = static_cast<std::int64_t>(nodes * kGpusPerNode / shared);
  if (const auto micro = size_in(layout, "micro-batch"))
    document["training"]["micro_batch_size"] = static_cast<std::int64_t>(*micro);
  for (const auto& [key, field] :
       {std::pair("batch", "global_batch_size"), std::pair("sequence", "sequence_length")})
    if (setup.contains(key)) document["training"][field] = setup[key];
  return read_scenario_document("energy_rows.json", document);
}

struct Simulated {
  double node_w = 0.0;
  double step_s = 0.0;
};

Simulated simulated(const Scenario& scenario) {
  const Result result = simulate(scenario);
  const EnergyFigures figures = energy_figures(result.view());
  return {.node_w = figures.mean_node_w, .step_s = figures.step_s};
}

// Adds node power, and the energy of the whole run. A predicted step replaces the measured one in
// the run's time; evaluation, start and end keep their measured time.
void add_run(EnergyRow row, const Json& entry, const Simulated& run, std::vector<EnergyRow>& rows) {
  const Json& setup = entry.at("setup");
  const Json& measured = entry.at("measured");
  const double nodes = setup.value("nodes", 1.0);
  double seconds = measured.at("seconds").get<double>();
  const auto watts = number_at(measured, "node_w_ac");
  row.published = watts ? *watts : measured.at("node_w").get<double>();
  row.predicted = run.node_w;
  row.figure = "node power, W";
  finish(row, rows);
  const auto steps = number_at(setup, "steps");
  const auto step_s = number_at(setup, "step_s");
  if (run.step_s > 0.0 && steps && step_s) {
    seconds += *steps * (run.step_s - *step_s);
    row.supposed += fmt::format("; steps of {:.2f} s", run.step_s);
  }
  const auto kwh = number_at(measured, "node_kwh_ac");
  row.published = kwh ? *kwh : measured.at("node_kwh").get<double>();
  row.predicted = reliability::energy_kwh(run.node_w / 1000.0 * nodes, seconds / 3600.0);
  row.figure = "energy, kWh";
  finish(std::move(row), rows);
}

std::string predict_run(EnergyRow row, const Json& entry, std::vector<EnergyRow>& rows) {
  const Json& setup = entry.at("setup");
  const std::string gpu = gpu_of(setup);
  const Json& benchmarks = assumptions().at("benchmarks");
  const std::string name = setup.value("benchmark", "");
  if (gpu.empty() || !benchmarks.contains(name)) return "nothing is assumed for its benchmark";
  const Json& benchmark = benchmarks.at(name);
  row.supposed = benchmark.at("supposed").get<std::string>();
  if (benchmark.contains("scenario")) {
    add_run(std::move(row), entry, simulated(scenario_of(benchmark, gpu, setup)), rows);
    return "";
  }
  const GpuSheet sheet = load_gpu_sheet(gpu);
  const PowerData power = load_power(gpu, sheet.generation, sheet.power_w);
  add_run(std::move(row), entry,
          {.node_w = supposed_node_w(power, benchmark.contains(gpu) ? benchmark.at(gpu) : benchmark,
                                     setup.value("nodes", 1.0))},
          rows);
  return "";
}

// The time under each cap over that under the largest, which is the last of the list. There the GPU
// is supposed to draw what was measured, all of it in work that the clock bounds. The row shows
// means over the other caps, and the mean error of the single points.
std::string predict_curve(EnergyRow row, const Json& entry, std::vector<EnergyRow>& rows) {
  const std::string gpu = gpu_of(entry.at("setup"));
  if (gpu.empty()) return "the power of its GPU is not known";
  const PowerData power = load_power(gpu, "", 0.0);
  const auto caps = entry.at("setup").at("power_limit_w").get<std::vector<double>>();
  const auto seconds = entry.at("measured").at("epoch_s").get<std::vector<double>>();
  const double full_w = entry.at("measured").at("mean_w").get<std::vector<double>>().back();
  double errors = 0.0;
  for (std::size_t i = 0; i + 1 < caps.size(); ++i) {
    row.published += seconds[i] / seconds.back();
    const double slower = 1.0 / clock_under_cap(power.gpu, full_w, caps[i]);
    row.predicted += slower;
    errors += std::abs(slower * seconds.back() / seconds[i] - 1.0);
  }
  const auto points = static_cast<double>(caps.size() - 1);
  row.published /= points;
  row.predicted /= points;
  row.error = errors / points;
  row.figure = fmt::format("time over cap, {} points", caps.size() - 1);
  row.supposed =
      "full power as measured at the largest cap; all work follows the clock; constants "
      "of the other GPU's curve";
  rows.push_back(std::move(row));
  return "";
}

// Power limit times hours, as model cards count.
std::string predict_accounting(EnergyRow row, const Json& entry, std::vector<EnergyRow>& rows) {
  const Json& setup = entry.at("setup");
  const auto hours = number_at(setup, "gpu_hours");
  if (!hours) return "it gives no hours";
  const auto limit_w = number_at(setup, "gpu_w");
  const std::string gpu = gpu_of(setup);
  if (!limit_w && gpu.empty()) return "it gives no power limit";
  const double watts = limit_w ? *limit_w : load_power(gpu, "", 0.0).gpu.limit_w;
  const double kwh = reliability::energy_kwh(watts / 1000.0, *hours);
  row.purpose = "bookkeeping";
  if (const auto mwh = number_at(entry.at("measured"), "mwh")) {
    row.figure = "energy, MWh";
    row.published = *mwh;
    row.predicted = kwh / 1000.0;
    row.supposed = "every GPU draws its power limit all the time";
  } else {
    row.figure = "kg CO2 per kWh";
    row.predicted =
        reliability::carbon_intensity(entry.at("measured").at("tco2").get<double>() * 1000.0, kwh);
    row.published = assumptions().at("kg_co2_per_kwh").get<double>();
    row.supposed = "compared with the mean of the cards; energy at the power limit";
  }
  finish(std::move(row), rows);
  return "";
}

// The node power at which all GPUs draw their limit.
std::string predict_peak(EnergyRow row, const Json& entry, std::vector<EnergyRow>& rows) {
  const std::string gpu = assumptions().at("peak_rows").at(row.id).get<std::string>();
  const PowerData power = load_power(gpu, "", 0.0);
  row.figure = "peak node power, W";
  row.published = entry.at("measured").at("peak_kw").get<double>() * 1000.0;
  row.predicted = node_power_w(power, kGpusPerNode, kGpusPerNode, kGpusPerNode * power.gpu.limit_w);
  row.supposed = "all GPUs draw their limit";
  finish(std::move(row), rows);
  return "";
}

}  // namespace

std::string predict_energy(const Json& entry, std::vector<EnergyRow>& rows) {
  EnergyRow row{.id = entry.value("id", ""),
                .quality = entry.value("quality", ""),
                .source = entry.value("source", "")};
  row.purpose = calibrates(row.id) ? "calibrates" : "judges";
  const Json& setup = entry.at("setup");
  if (setup.contains("benchmark")) return predict_run(std::move(row), entry, rows);
  if (setup.contains("power_limit_w")) return predict_curve(std::move(row), entry, rows);
  if (assumptions().at("peak_rows").contains(row.id))
    return predict_peak(std::move(row), entry, rows);
  const Json& measured = entry.at("measured");
  if (measured.contains("tco2") || measured.contains("mwh"))
    return predict_accounting(std::move(row), entry, rows);
  return "its energy is a range, or a figure of a fleet";
}

std::string energy_rows_text(const std::vector<EnergyRow>& rows) {
  if (rows.empty()) return "";
  TextTable table({"run", "purpose", "figure", "published", "predicted", "error"});
  std::map<std::string, std::vector<double>> errors;
  std::string supposed;
  std::map<std::string, bool> told;
  for (const EnergyRow& row : rows) {
    table.row({row.id, row.purpose, row.figure, fmt::format("{:.4g}", row.published),
               fmt::format("{:.4g}", row.predicted), fmt::format("{:+.1f} %", 100.0 * row.error)});
    errors[row.purpose].push_back(std::abs(row.error));
    // Many rows have the same assumption, which is told once, with the first of them.
    if (!std::exchange(told[row.supposed], true) && !row.supposed.empty())
      supposed += wrapped(fmt::format("  {}: {}", row.id, row.supposed), 4);
  }
  std::string text = "\nEnergy\n" + table.text();
  for (const auto& [purpose, all] : errors) {
    double sum = 0.0;
    for (const double error : all) sum += error;
    text += fmt::format("  {} rows {}: MAPE {:.1f} %\n", all.size(), purpose,
                        100.0 * sum / static_cast<double>(all.size()));
  }
  return text + "Supposed\n" + supposed;
}

Json energy_rows_json(const std::vector<EnergyRow>& rows) {
  Json json = Json::array();
  for (const EnergyRow& row : rows)
    json.push_back({{"id", row.id},
                    {"purpose", row.purpose},
                    {"figure", row.figure},
                    {"quality", row.quality},
                    {"source", row.source},
                    {"published", row.published},
                    {"predicted", row.predicted},
                    {"error", row.error},
                    {"supposed", row.supposed}});
  return json;
}

}  // namespace trainyard
