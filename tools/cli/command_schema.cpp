// `trainyard schema`: the JSON Schema of a scenario, for editors.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/cli/command.hpp"
#include "tools/cli/print.hpp"

namespace trainyard {

void add_schema(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("schema", "Print the JSON Schema of a scenario file");
  command->footer("Example:\n  trainyard schema > scenario.schema.json");
  command->callback([&action] {
    action = [] {
      say("{}\n", scenario_schema().dump(2));
      return Exit::Fine;
    };
  });
}

}  // namespace trainyard
