// The sections of the text report.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "sim/render/text_table.hpp"
#include "sim/report/communication.hpp"
#include "sim/report/fault_lines.hpp"
#include "sim/report/figures.hpp"
#include "sim/report/report.hpp"
#include "sim/report/stage_summary.hpp"

namespace trainyard {
namespace {

std::string gib(std::int64_t bytes) { return to_text(Bytes{static_cast<double>(bytes)}); }

struct FigureRow {
  std::string figure;  // key of the published figure to compare with; empty: none applies
  std::string title;
  std::optional<double> value;
  std::string text;
};

// Names the peak only where there are several.
std::string utilisation_title(std::string_view name, const Utilisation& row, std::size_t peaks) {
  if (row.attention.empty()) return std::string(name);
  const std::string peak = peaks > 1 ? fmt::format(", {} peak", row.peak.precision) : "";
  return fmt::format("{} ({} attention{})", name, row.attention, peak);
}

// Only the first row is compared with a published figure.
void add_utilisation(const RunView& view, const Figures& key, std::vector<FigureRow>& rows) {
  const std::size_t peaks = view.facts.peaks.size();
  for (const Utilisation& row : key.utilisation) {
    const bool first = &row == &key.utilisation.front();
    rows.push_back(
        {first ? "mfu" : "", utilisation_title("MFU", row, peaks), row.mfu, percent(row.mfu)});
    rows.push_back(
        {first ? "hfu" : "", utilisation_title("HFU", row, peaks), row.hfu, percent(row.hfu)});
  }
}

std::vector<FigureRow> figure_rows(const RunView& view) {
  const Figures key = figures(view);
  const auto text = [](const std::optional<double>& value, const auto& print) {
    return value ? print(*value) : std::string("-");
  };
  const auto tflops = [](double value) { return fmt::format("{:.1f} TFLOP/s", value); };
  std::vector<FigureRow> rows{
      {"step_time_s", "step time", key.step_time_s, to_text(Seconds{key.step_time_s})},
      {"tokens_per_s", "tokens/s", key.tokens_per_s, text(key.tokens_per_s, grouped)},
      {"tokens_per_s_per_gpu", "tokens/s per GPU", key.tokens_per_s_per_gpu,
       text(key.tokens_per_s_per_gpu, grouped)},
      {"model_tflops_per_gpu", "model FLOP/s per GPU", key.model_tflops_per_gpu,
       text(key.model_tflops_per_gpu, tflops)},
      {"hardware_tflops_per_gpu", "hardware FLOP/s per GPU", key.hardware_tflops_per_gpu,
       text(key.hardware_tflops_per_gpu, tflops)}};
  add_utilisation(view, key, rows);
  return rows;
}

std::string published_text(const PublishedComparison& row) {
  if (row.figure == "mfu" || row.figure == "hfu") return percent(row.published);
  if (row.figure.starts_with("tokens")) return grouped(row.published);
  return fmt::format("{:.4g} {}", row.published, row.unit);
}

const PublishedComparison* published_of(const RunFacts& facts, const std::string& figure) {
  const auto found =
      std::find_if(facts.published.begin(), facts.published.end(),
                   [&](const auto& row) { return !figure.empty() && row.figure == figure; });
  return found == facts.published.end() ? nullptr : &*found;
}

// Leaves out hardware FLOPs and HFU where nothing is recomputed: they are then the model's FLOPs
// and the MFU.
bool repeats(const FigureRow& row, const FigureRow& before) {
  const bool is_hardware = row.title.starts_with("HFU") || row.title.starts_with("hardware");
  return is_hardware && row.text == before.text;
}

std::vector<FigureRow> without_repetitions(const std::vector<FigureRow>& rows) {
  std::vector<FigureRow> kept;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (i == 0 || !repeats(rows[i], rows[i - 1])) kept.push_back(rows[i]);
  return kept;
}

std::string interval_lines(const std::optional<StepInterval>& interval) {
  return interval ? wrapped("  interval: " + interval_sentence(*interval), 4) : "";
}

// In the order of TimeShare.
constexpr std::array<std::string_view, kTimeShares> kShortTitles{
    "compute", "optim.", "TP",      "PP",     "DP",   "EP",  "CP",
    "CPU",     "other",  "waiting", "bubble", "host", "idle"};

// The shares of time in words, in the order of TimeShare.
constexpr std::array<std::string_view, kTimeShares> kShareWords{
    "computation",
    "the optimizer",
    "tensor-parallel communication that nothing hides",
    "pipeline communication that nothing hides",
    "data-parallel communication that nothing hides",
    "expert-parallel communication that nothing hides",
    "context-parallel communication that nothing hides",
    "copies to and from the host that nothing hides",
    "other communication that nothing hides",
    "waiting for slower ranks",
    "the pipeline bubble",
    "the host, which issues kernels too slowly",
    "idle time"};

// Returns the table of shares of the step, mean over all ranks.
std::string breakdown_mean(const std::vector<StageBreakdown>& stages, double step_s) {
  const Breakdown mean = mean_breakdown(stages);
  TextTable table({"", "seconds", "share", ""});
  for (std::size_t share = 0; share < kTimeShares; ++share) {
    const double seconds = mean.seconds[share];
    if (seconds <= 0.0) continue;
    const double fraction = seconds / step_s;
    // The table aligns cells right. Padding the bar to its greatest length aligns it left.
    table.row({std::string(to_string(static_cast<TimeShare>(share))),
               fmt::format("{:.6g}", seconds), percent(fraction),
               fmt::format("{:<50}", bar(fraction))});
  }
  return table.text();
}

TextTable breakdown_by_stage(const std::vector<StageBreakdown>& stages, double step_s) {
  std::vector<std::size_t> shown;
  for (std::size_t share = 0; share < kTimeShares; ++share) {
    const auto used = [share](const StageBreakdown& stage) {
      return stage.mean.seconds[share] > 0.0;
    };
    if (std::any_of(stages.begin(), stages.end(), used)) shown.push_back(share);
  }
  std::vector<std::string> titles{"stage", "ranks"};
  for (const std::size_t share : shown) titles.emplace_back(kShortTitles[share]);
  TextTable table(titles);
  for (const StageBreakdown& stage : stages) {
    std::vector<std::string> cells{fmt::format("{}", stage.stage), fmt::format("{}", stage.ranks)};
    for (const std::size_t share : shown) {
      cells.push_back(fmt::format("{:.1f}", 100.0 * stage.mean.seconds[share] / step_s));
    }
    table.row(std::move(cells));
  }
  return table;
}

// Returns the composition of a memory peak, largest first: "activations 30 GiB, weights 12.1 GiB".
std::string composition(const RunView& view, const MemoryPeak& peak) {
  // A multimap, because categories may have equal sizes.
  std::multimap<std::int64_t, std::string, std::greater<>> parts;
  for (std::size_t category = 0; category < peak.by_category.size(); ++category) {
    if (peak.by_category[category] == 0) continue;
    parts.emplace(peak.by_category[category], view.workload.categories[category]);
  }
  std::string text;
  for (const auto& [bytes, name] : parts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, gib(bytes));
  }
  return text;
}

std::string host_text(const HostMemory& host) {
  return host.capacity_bytes > 0
             ? fmt::format("{} of the {} of host memory on node {}", gib(host.bytes),
                           gib(host.capacity_bytes), host.node)
             : fmt::format("{} of host memory on node {}", gib(host.bytes), host.node);
}

// Counts and bytes cover all steps that the run plays, unlike times. Returns `one` for one step.
std::string in_steps(const RunView& view, const char* one) {
  return view.facts.steps > 1.0 ? fmt::format(" in all {} steps", view.facts.steps) : one;
}

}  // namespace

// Whether the fullest stage and the host memory fit, and the time of a step.
std::string verdict_line(const RunView& view) {
  const double steps = view.facts.steps;
  const std::string step = fmt::format("one step takes {}{}", to_text(Seconds{view.step_s()}),
                                       steps > 1.0 ? fmt::format(", the mean of {}", steps) : "");
  const std::vector<StageMemory> stages = stage_memory(view);
  const StageMemory* worst = worst_stage(stages);
  if (worst == nullptr || worst->capacity_bytes == 0) return step + "\n";
  const std::string need = fmt::format("{} of {} on the fullest stage ({})", gib(worst->peak.bytes),
                                       gib(worst->capacity_bytes), worst->stage);
  const std::optional<HostMemory> host = host_memory(view);
  const bool fits = worst->fits && (!host || host->fits);
  return fmt::format("{}: {}{}; {}\n", fits ? "fits" : "DOES NOT FIT", need,
                     host ? "; " + host_text(*host) : "", step);
}

std::vector<SetupLine> setup_and_faults(const RunView& view) {
  std::vector<SetupLine> lines = view.facts.setup;
  for (SetupLine& line : fault_lines(view)) lines.push_back(std::move(line));
  return lines;
}

std::vector<SetupLine> heading_lines(const RunView& view) {
  std::vector<SetupLine> lines = setup_and_faults(view);
  if (const std::string limit = limit_sentence(view); !limit.empty())
    lines.push_back({"limit", limit});
  return lines;
}

std::string setup_section(const RunView& view) {
  std::string text;
  for (const SetupLine& line : heading_lines(view))
    text += wrapped(fmt::format("  {:<10} {}", line.name, line.text), 13);
  return text;
}

std::string limit_sentence(const RunView& view) {
  const std::vector<StageBreakdown> stages = stage_breakdown(view);
  const double step_s = view.step_s();
  if (stages.empty() || step_s <= 0.0) return "";
  const Breakdown mean = mean_breakdown(stages);
  const auto percent_of = [&](std::size_t share) { return percent(mean.seconds[share] / step_s); };
  constexpr auto kCompute = static_cast<std::size_t>(TimeShare::Compute);
  // Compute is the first share. All others count as losses, the optimizer too.
  std::size_t loss = kCompute + 1;
  for (std::size_t share = loss; share < kTimeShares; ++share)
    if (mean.seconds[share] > mean.seconds[loss]) loss = share;
  if (mean.seconds[kCompute] >= mean.seconds[loss]) {
    if (mean.seconds[loss] <= 0.0) return "computation takes the whole step";
    return fmt::format("computation takes {} of a rank's time; the largest loss is {} ({})",
                       percent_of(kCompute), kShareWords[loss], percent_of(loss));
  }
  return fmt::format("{} takes {} of a rank's time, computation {}", kShareWords[loss],
                     percent_of(loss), percent_of(kCompute));
}

std::vector<FigureLine> figure_lines(const RunView& view) {
  std::vector<FigureLine> lines;
  std::set<std::string> shown;
  // With published figures no row is left out, so that each of them finds its row.
  const bool compared = !view.facts.published.empty();
  const std::vector<FigureRow> rows = figure_rows(view);
  for (const FigureRow& row : compared ? rows : without_repetitions(rows)) {
    const PublishedComparison* published = published_of(view.facts, row.figure);
    if (!row.value && published == nullptr) continue;
    shown.insert(row.figure);
    lines.push_back({row.figure, row.title, row.text, published ? published_text(*published) : "",
                     published ? signed_percent(published->error()) : ""});
  }
  // Published figures that have no line of their own follow.
  for (const PublishedComparison& row : view.facts.published) {
    if (shown.contains(row.figure)) continue;
    lines.push_back({row.figure, row.title, fmt::format("{:.4g} {}", row.predicted, row.unit),
                     published_text(row), signed_percent(row.error())});
  }
  return lines;
}

TextTable figures_table(const std::vector<FigureLine>& lines, bool with_published) {
  TextTable table(with_published
                      ? std::vector<std::string>{"", "predicted", "published", "difference"}
                      : std::vector<std::string>{"", ""});
  for (const FigureLine& line : lines) {
    if (with_published)
      table.row({line.title, line.predicted, line.published, line.difference});
    else
      table.row({line.title, line.predicted});
  }
  return table;
}

std::string training_sentence(const RunView& view) {
  const std::optional<TrainingTotal> total = training_total(view);
  if (!total) return "";
  return fmt::format("{} tokens take {:.4g} days, {} GPU-hours{}", short_count(total->tokens),
                     total->days, grouped(total->gpu_hours),
                     total->cost ? fmt::format(", which cost {}", grouped(*total->cost)) : "");
}

std::string figures_section(const RunView& view) {
  const bool compared = !view.facts.published.empty();
  std::string text = figures_table(figure_lines(view), compared).text();
  if (compared && !view.facts.published_source.empty())
    text += wrapped("  published: " + view.facts.published_source, 4);
  if (compared && !view.facts.published_note.empty())
    text += wrapped("  note: " + view.facts.published_note, 4);
  if (const std::string training = training_sentence(view); !training.empty())
    text += wrapped("  training: " + training, 4);
  return text + interval_lines(view.facts.interval);
}

std::string breakdown_section(const RunView& view) {
  const std::vector<StageBreakdown> stages = stage_breakdown(view);
  const double step_s = view.step_s();
  if (stages.empty() || step_s <= 0.0) return "";
  return "Where the time of a rank goes (mean over all ranks)\n" + breakdown_mean(stages, step_s) +
         "\nThe same by stage, % of the step (TP, PP, DP, EP, CP, CPU, other: communication not "
         "hidden)\n" +
         breakdown_by_stage(stages, step_s).text();
}

TextTable breakdown_table(const RunView& view) {
  return breakdown_by_stage(stage_breakdown(view), view.step_s());
}

TextTable memory_table(const RunView& view) {
  const std::vector<StageMemory> stages = stage_memory(view);
  const bool mixed = view.cluster.has_mixed_gpus();
  std::vector<std::string> titles{"stage", "peak", "of", "fits", "at", "when"};
  if (mixed) titles.insert(titles.begin() + 1, "GPU");
  TextTable table(titles);
  for (const StageMemory& stage : stages) {
    const bool bounded = stage.capacity_bytes > 0;
    std::vector<std::string> cells{fmt::format("{}", stage.stage),
                                   gib(stage.peak.bytes),
                                   bounded ? gib(stage.capacity_bytes) : "-",
                                   bounded ? (stage.fits ? "yes" : "NO") : "-",
                                   to_text(Seconds{stage.peak.at_s}),
                                   peak_operation(view, stage)};
    if (mixed) cells.insert(cells.begin() + 1, stage.gpu);
    table.row(std::move(cells));
  }
  return table;
}

std::string memory_section(const RunView& view) {
  const std::vector<StageMemory> stages = stage_memory(view);
  if (stages.empty()) return "";
  std::string text = "Peak memory of a rank, by stage\n" + memory_table(view).text();
  for (const StageMemory& stage : stages) {
    text += wrapped(fmt::format("  stage {}: {}", stage.stage, composition(view, stage.peak)), 4);
  }
  if (const std::optional<HostMemory> host = host_memory(view))
    text += fmt::format("  on the host: {}{}\n", host_text(*host),
                        host->fits ? "" : ", MORE THAN THERE IS");
  return text;
}

TextTable links_table(const RunView& view) {
  TextTable table(
      {"link class", "links", "each", "carried", "mean use", "busy", "busiest", "peak use"});
  for (const LinkSummary& row : link_summary(view)) {
    table.row({std::string(to_string(row.kind)), fmt::format("{}", row.links),
               to_text(BytesPerSecond{row.capacity_bytes_per_s}), to_text(Bytes{row.bytes}),
               percent(row.mean_utilisation), percent(row.busy_fraction),
               percent(row.busiest_fraction), percent(row.peak_utilisation)});
  }
  return table;
}

std::string links_section(const RunView& view) {
  const TextTable table = links_table(view);
  if (table.rows().empty()) return "";
  return "Links (each direction is a link; means over the links that carried anything" +
         in_steps(view, "") + ")\n" + table.text();
}

TextTable collectives_table(const RunView& view) {
  TextTable table({"group", "operation", "algorithm", "ranks", "calls", "size", "time", "busbw"});
  for (const CollectiveSummary& row : collective_summary(view)) {
    table.row({std::string(to_string(row.group)), std::string(to_string(row.op)),
               row.selected_algorithm.label, fmt::format("{}", row.ranks),
               fmt::format("{}", row.count), to_text(Bytes{row.mean_bytes()}),
               to_text(Seconds{row.mean_time_s()}),
               row.busbw_bytes_per_s > 0.0 ? to_text(BytesPerSecond{row.busbw_bytes_per_s}) : "-"});
  }
  return table;
}

std::string collectives_section(const RunView& view) {
  const TextTable table = collectives_table(view);
  if (table.rows().empty()) return "";
  return "Communication (calls of all groups" + in_steps(view, " in the step") +
         "; mean size and time of a call)\n" + table.text();
}

TextTable placement_table(const RunView& view) {
  TextTable table({"group", "ranks", "groups", "nodes", "per node", "between nodes", "switches"});
  for (const GroupSpan& row : placement_summary(view)) {
    const std::string nodes = row.nodes_least == row.nodes_most
                                  ? fmt::format("{}", row.nodes_most)
                                  : fmt::format("{} to {}", row.nodes_least, row.nodes_most);
    table.row({std::string(to_string(row.kind)), fmt::format("{}", row.ranks),
               fmt::format("{}", row.groups), nodes, fmt::format("{}", row.per_node_most),
               percent(static_cast<double>(row.crossings) / static_cast<double>(row.neighbours)),
               row.switches_most == 0 ? "-" : fmt::format("{}", row.switches_most)});
  }
  return table;
}

std::string placement_section(const RunView& view) {
  const TextTable table = placement_table(view);
  if (table.rows().empty()) return "";
  return "Placement (nodes that one group touches; its neighbours on two nodes, and at most how "
         "many\nswitches lie between them)\n" +
         table.text();
}

std::string costs_section(const RunView& view) {
  const CostSummary costs = cost_summary(view);
  if (costs.busy_s <= 0.0) return "";
  std::string text = fmt::format("Kernel time: {} measured, {} interpolated, {} extrapolated",
                                 percent(costs.of(Provenance::Measured)),
                                 percent(costs.of(Provenance::Interpolated)),
                                 percent(costs.of(Provenance::Extrapolated)));
  const double bound = costs.of(Provenance::Roofline);
  text += bound > 0.0 ? fmt::format(", {} the data sheet's roofline\n", percent(bound)) : "\n";
  constexpr std::size_t kShown = 3;
  for (std::size_t i = 0; i < std::min(kShown, costs.worth_measuring.size()); ++i) {
    const KernelUse& use = costs.worth_measuring[i];
    text += wrapped(fmt::format("  worth measuring: {} ({} of it, {})",
                                to_text(view.workload.kernels.at(use.kernel)), percent(use.share),
                                to_string(use.provenance)),
                    4);
  }
  return text;
}

namespace {

std::string own_files_text(const RunView& view) {
  std::string text;
  for (const OwnDataFile& own : view.facts.own_files)
    text += wrapped(fmt::format("  - {} {}: {}{}", own.kind, own.name, own.file,
                                own.replaces ? " (replaces the shipped one)" : ""),
                    4);
  return text.empty() ? text : "Data files that were not shipped\n" + text;
}

}  // namespace

std::string notes_section(const RunView& view) {
  std::string text = own_files_text(view);
  if (!view.facts.assumptions.empty())
    text += text.empty() ? "Assumptions of the scenario\n" : "\nAssumptions of the scenario\n";
  for (const std::string& assumption : view.facts.assumptions)
    text += wrapped("  - " + assumption, 4);
  if (!view.facts.defaults.empty()) {
    text += fmt::format("{}Defaults of framework {} (--ideal leaves them out)\n",
                        text.empty() ? "" : "\n",
                        view.facts.scenario.value("framework", std::string()));
  }
  for (const std::string& one : view.facts.defaults) text += wrapped("  - " + one, 4);
  if (!view.facts.approximations.empty())
    text += text.empty() ? "Approximations\n" : "\nApproximations\n";
  for (const Approximation& one : view.facts.approximations) {
    text += wrapped(fmt::format("  - {} x {}: {}", one.count, one.name, one.sentence), 4);
  }
  return text;
}

std::string summary_text(const RunView& view) {
  std::string text = verdict_line(view);
  if (!view.facts.title.empty()) text += wrapped(view.facts.title, 2);
  for (const auto section :
       {setup_section, figures_section, local_steps_section, batches_section, breakdown_section,
        documents_section, energy_section, links_section, collectives_section, placement_section,
        memory_section, costs_section, notes_section}) {
    const std::string part = section(view);
    if (!part.empty()) text += "\n" + part;
  }
  return text;
}

}  // namespace trainyard
