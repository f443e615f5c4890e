#include "sim/render/text_table.hpp"
#include "sim/report/report.hpp"
#include "sim/report/sections.hpp"

namespace trainyard {

std::string summary_text(const RunView& view) {
  std::string text = verdict_line(view);
  if (!view.facts.title.empty()) text += wrapped(view.facts.title, 2);
  for (const auto section : {figures_section, breakdown_section, links_section, collectives_section,
                             placement_section, memory_section, costs_section, notes_section}) {
    const std::string part = section(view);
    if (!part.empty()) text += "\n" + part;
  }
  return text;
}

}  // namespace trainyard
