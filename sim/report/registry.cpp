// The table of all reports.
#include <algorithm>
#include <array>

#include "sim/report/path_summary.hpp"
#include "sim/report/report.hpp"
#include "sim/report/result_json.hpp"

namespace trainyard {
namespace {

// The section itself is empty without the block, since the summary contains it.
std::string energy_report(const RunView& view) {
  if (view.power != nullptr) return energy_section(view);
  return "The scenario has no block power, which energy needs (--set power.pue=1.2 adds one).\n";
}

std::string documents_report(const RunView& view) {
  const std::string batches = batches_section(view);
  if (view.facts.documents)
    return documents_section(view) + (batches.empty() ? "" : "\n" + batches);
  return "Every sequence is one document (--set documents.preset=wikipedia_en packs several).\n";
}

std::string local_steps_report(const RunView& view) {
  if (view.facts.local_steps) return local_steps_section(view);
  return "Gradients are exchanged in every step (--set local_steps.every=100 adds workers that "
         "train apart).\n";
}

constexpr std::array kReports{
    ReportEntry{"summary", "verdict, key figures, where the time goes, links, memory", summary_text,
                result_json, nullptr},
    ReportEntry{"breakdown", "where the time of a rank goes, by stage and cause", breakdown_section,
                breakdown_json, breakdown_csv, "breakdown_s"},
    ReportEntry{"memory", "peak memory of each stage, its moment and its composition",
                memory_section, memory_json, memory_csv, "memory"},
    ReportEntry{"links", "what the links of each class carried and how busy they were",
                links_section, links_json, links_csv, "links"},
    ReportEntry{"collectives", "calls, sizes, times and bus bandwidth of each kind of group",
                collectives_section, collectives_json, collectives_csv, "collectives"},
    ReportEntry{"placement", "which groups cross what: nodes, members per node, switches between",
                placement_section, placement_json, nullptr, "placement"},
    ReportEntry{"costs", "how well the kernel times are known, and what to measure next",
                costs_section, costs_json, nullptr, "costs"},
    ReportEntry{"documents",
                "how evenly packed documents are divided, and the mean step over --batches",
                documents_report, documents_json, nullptr},
    ReportEntry{"local_steps", "workers that train apart: the exchange, the mean step, its memory",
                local_steps_report, local_steps_json, nullptr},
    ReportEntry{"energy", "energy, power, carbon and cost of the step and of the training",
                energy_report, energy_json, energy_csv},
    ReportEntry{"critical_path", "what the length of the step is made of, and who has slack",
                path_section, path_json, path_csv},
};

}  // namespace

std::span<const ReportEntry> reports() { return kReports; }

const ReportEntry* find_report(std::string_view name) {
  const auto found = std::find_if(kReports.begin(), kReports.end(),
                                  [name](const ReportEntry& entry) { return entry.name == name; });
  return found == kReports.end() ? nullptr : &*found;
}

}  // namespace trainyard
