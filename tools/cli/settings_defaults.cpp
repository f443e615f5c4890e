#include <fmt/format.h>

#include "sim/base/error.hpp"
#include "tools/cli/command.hpp"

namespace trainyard {

void take_defaults(CLI::App& app, const Settings& settings) {
  for (const auto& [name, value] : settings.options) {
    CLI::Option* const option = app.get_option_no_throw(name);
    if (option == nullptr) continue;
    try {
      option->default_val(value);
      option->required(false);
    } catch (const CLI::Error& error) {
      throw InputError(Problem{settings.file, "/" + name.substr(2),
                               fmt::format("{} is no value of {}", value, name), error.what()});
    }
  }
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    take_defaults(*command, settings);
}

}  // namespace trainyard
