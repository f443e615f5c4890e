#include "tools/studies/validate/goodput/peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "scenarios/reader/reliability.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/render/text_table.hpp"
#include "tools/studies/goodput/run/job.hpp"
#include "tools/studies/goodput/run/sampled_run.hpp"
#include "tools/studies/goodput/scenario_job.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kRunsOfCase = 40;
constexpr std::string_view kAtFirst = "failures a day at first";  // by the rates, not sampled

double share(const SampledRun& run, std::initializer_list<RunPhase> phases) {
  double sum_s = 0.0;
  for (const RunPhase phase : phases) sum_s += run.phase(phase);
  return sum_s / run.wall_s;
}

double recovery_share(const SampledRun& run) {
  return share(run, {RunPhase::Detect, RunPhase::Diagnose, RunPhase::Replace, RunPhase::Queue,
                     RunPhase::Start, RunPhase::CommunicatorInit, RunPhase::Load, RunPhase::WarmUp,
                     RunPhase::Reconfigure});
}

// A figure of a sampled run, by the name that the file gives it.
struct FigureOfRun {
  std::string_view name;
  double (*value)(const SampledRun& run);
};
// Saves and work that is done again count as time up: the peers' rows do not define the term.
constexpr std::array kFigures{
    FigureOfRun{"failures a day",
                [](const SampledRun& run) {
                  return run.all_interruptions() * kSecondsPerDay / run.wall_s;
                }},
    FigureOfRun{"days until done",
                [](const SampledRun& run) { return run.wall_s / kSecondsPerDay; }},
    FigureOfRun{"time over ideal",
                [](const SampledRun& run) { return 1.0 / share(run, {RunPhase::Productive}); }},
    FigureOfRun{"productive share",
                [](const SampledRun& run) { return share(run, {RunPhase::Productive}); }},
    FigureOfRun{"redone share",
                [](const SampledRun& run) { return share(run, {RunPhase::Redone}); }},
    FigureOfRun{"checkpoint share",
                [](const SampledRun& run) { return share(run, {RunPhase::Checkpoint}); }},
    FigureOfRun{"recovery share", recovery_share},
    FigureOfRun{"share of time up",
                [](const SampledRun& run) { return 1.0 - recovery_share(run); }},
    FigureOfRun{"failed nodes without a spare", [](const SampledRun& run) {
                  return static_cast<double>(run.without_spare) /
                         static_cast<double>(std::max<std::int64_t>(1, run.nodes_lost));
                }}};

// A case of the file.
struct PeerSetup {
  PeerCase made;
  std::vector<std::string> published_keys = {};  // by figure; of `measured`; empty: none
  std::optional<Job> job = {};
  double work_s = 0.0;
};

// A checkpoint needs no bytes: the case gives its times, and no model is simulated.
Job job_of_case(JsonObject& entry) {
  Scenario scenario;
  scenario.file = entry.text("name");
  scenario.cluster.nodes = static_cast<std::uint32_t>(entry.integer("nodes", {.least = 1}));
  scenario.reliability = read_reliability(entry, {});
  scenario.reliability->checkpoint.bytes = Bytes{0.0};
  return job_with_step(scenario, entry.time("step_time").value());
}

void read_figures(JsonObject& entry, PeerSetup& setup) {
  for (JsonObject& figure : entry.objects("figures")) {
    PeerFigure one{.name = figure.text("name"), .published = {}};
    if (figure.has("published")) {
      one.published = figure.number("published");
      // Sources are for readers of the file, but finish() refuses a key that is never read.
      static_cast<void>(figure.text("source"));
    }
    setup.published_keys.push_back(figure.text("published_key", ""));
    setup.made.figures.push_back(std::move(one));
  }
}

PeerSetup setup_of(JsonObject& entry) {
  PeerSetup setup{.made = {.row = entry.text("row"), .name = entry.text("name")}};
  static_cast<void>(entry.text("source"));
  setup.made.not_run = entry.text("not_run", "");
  if (!setup.made.not_run.empty()) return setup;
  setup.made.supposed = entry.text("supposed");
  setup.made.differs = entry.text("differs");
  setup.work_s = entry.number("days_of_work", {.least = 0.0}) * kSecondsPerDay;
  setup.job = job_of_case(entry);
  read_figures(entry, setup);
  return setup;
}

std::vector<PeerSetup> setups() {
  JsonFile file = JsonFile::read(data_file("tools/studies/validate/data", "goodput_peers"));
  JsonObject root = file.root();
  static_cast<void>(root.text("source"));
  std::vector<PeerSetup> all;
  for (JsonObject& entry : root.objects("cases")) all.push_back(setup_of(entry));
  file.finish();
  return all;
}

Summary ours_of(const std::vector<SampledRun>& runs, const std::string& name) {
  const auto figure = std::ranges::find(kFigures, name, &FigureOfRun::name);
  if (figure == kFigures.end())
    throw InputError(Problem{"goodput_peers.json", "/cases", "no figure is called " + name, ""});
  std::vector<double> values;
  for (const SampledRun& run : runs) values.push_back(figure->value(run));
  return summary(std::move(values));
}

// A figure of the row takes precedence over one that the case itself gives.
PeerCase run_case(PeerSetup setup, const Json& measured) {
  if (!setup.job) return setup.made;
  std::vector<SampledRun> runs;
  for (std::size_t i = 0; i < kRunsOfCase; ++i)
    runs.push_back(sampled_run(*setup.job, {.steps = setup.work_s / setup.job->step_s}, 0, i));
  for (std::size_t i = 0; i < setup.made.figures.size(); ++i) {
    PeerFigure& figure = setup.made.figures[i];
    const std::string& key = setup.published_keys[i];
    if (!key.empty() && measured.contains(key)) figure.published = measured[key].get<double>();
    figure.ours = figure.name == kAtFirst ? Summary{.mean = kSecondsPerDay / setup.job->mtbf_s()}
                                          : ours_of(runs, figure.name);
  }
  return setup.made;
}

std::string notes_of(const PeerCase& one) {
  if (!one.not_run.empty())
    return wrapped(fmt::format("  {}: not run: {}", one.name, one.not_run), 4);
  return wrapped(fmt::format("  {}: supposed: {}", one.name, one.supposed), 4) +
         wrapped(fmt::format("    differs: {}", one.differs), 6);
}

}  // namespace

std::vector<PeerCase> peer_cases(const Json& entry) {
  static const std::vector<PeerSetup> known = setups();
  std::vector<PeerCase> cases;
  for (const PeerSetup& setup : known)
    if (setup.made.row == entry.value("id", ""))
      cases.push_back(run_case(setup, entry.at("measured")));
  return cases;
}

std::string peers_text(const std::vector<PeerCase>& cases) {
  if (cases.empty()) return "";
  TextTable table({"simulator", "figure", "theirs", "ours", "+- (95 %)"});
  std::string notes;
  for (const PeerCase& one : cases) {
    for (const PeerFigure& figure : one.figures)
      table.row(
          {one.name, figure.name, figure.published ? fmt::format("{:.4g}", *figure.published) : "",
           fmt::format("{:.4g}", figure.ours.mean), fmt::format("{:.2g}", figure.ours.half_width)});
    notes += notes_of(one);
  }
  return "\nOther simulators\n" + table.text() + notes;
}

Json peers_json(const std::vector<PeerCase>& cases) {
  Json json = Json::array();
  for (const PeerCase& one : cases) {
    Json figures = Json::array();
    for (const PeerFigure& figure : one.figures)
      figures.push_back({{"figure", figure.name},
                         {"published", figure.published ? Json(*figure.published) : Json()},
                         {"ours", figure.ours.mean},
                         {"half_width_95", figure.ours.half_width}});
    json.push_back({{"id", one.row},
                    {"simulator", one.name},
                    {"figures", std::move(figures)},
                    {"not_run", one.not_run},
                    {"supposed", one.supposed},
                    {"differs", one.differs}});
  }
  return json;
}

}  // namespace trainyard
