// `trainyard list`: prints every name that a scenario may use.
#include <algorithm>
#include <string>
#include <vector>

#include "tools/cli/command.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/start/catalogue.hpp"

namespace trainyard {

namespace {

void print(const CatalogueKind& kind) {
  say("{}\n", kind.title);
  const std::vector<CatalogueRow> rows = kind.rows();
  std::size_t width = 0;
  for (const CatalogueRow& row : rows) width = std::max(width, row.name.size());
  for (const CatalogueRow& row : rows) {
    if (row.summary.empty()) {
      say("  {}\n", row.name);
    } else {
      say("  {:{}}  {}\n", row.name, width, row.summary);
    }
  }
}

Exit list(const std::string& chosen) {
  bool first = true;
  for (const CatalogueKind& kind : catalogue()) {
    if (!chosen.empty() && chosen != kind.name) continue;
    if (!first) say("\n");
    first = false;
    print(kind);
  }
  return Exit::Fine;
}

}  // namespace

void add_list(CLI::App& app, Action& action) {
  auto chosen = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("list", "Show every name a scenario may use");
  std::vector<std::string> names;
  for (const CatalogueKind& kind : catalogue()) names.emplace_back(kind.name);
  command->add_option("kind", *chosen, "One kind only")->check(CLI::IsMember(names));
  command->footer("Example:\n  trainyard list schedules");
  command->callback([chosen, &action] { action = [chosen] { return list(*chosen); }; });
}

}  // namespace trainyard
