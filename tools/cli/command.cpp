#include "tools/cli/command.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/report/stage_summary.hpp"
#include "tools/cli/print.hpp"

namespace trainyard {

void add_ideal_option(CLI::App& command, bool& ideal) {
  command.add_flag("--ideal", ideal,
                   "Without the framework's defaults: a host that issues in no time, replicas that "
                   "keep pace (\"defaults\": \"ideal\")");
}

Override ideal_override() { return {.path = "defaults", .value = "ideal"}; }

CLI::Option* add_set_option(CLI::App& command, std::vector<std::string>& sets) {
  return command
      .add_option("--set", sets,
                  "Change a field of the scenario: --set parallelism.tensor=4 (repeatable)")
      ->type_name("PATH=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_scenario_options(CLI::App& command, ScenarioChoice& choice, bool required) {
  auto* file = command.add_option("scenario", choice.file, "Scenario file (see scenarios/)")
                   ->type_name("FILE");
  if (required) file->required();
  add_set_option(command, choice.sets);
  add_ideal_option(command, choice.ideal);
}

namespace {

constexpr double kTokensMost = 1e18;

// Returns the number of tokens in "15T", "300B", "1.4e12"; nothing for another text.
std::optional<double> token_count(const std::string& text) {
  double count = 0.0;
  const char* const all = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), all, count);
  if (error != std::errc() || !(count > 0.0)) return {};
  const std::string_view unit(end, all);
  for (const auto& [name, factor] :
       {std::pair{"", 1.0}, {"k", 1e3}, {"M", 1e6}, {"B", 1e9}, {"G", 1e9}, {"T", 1e12}})
    if (unit == name && count * factor <= kTokensMost) return count * factor;
  return {};
}

}  // namespace

void add_tokens_option(CLI::App& command, double& tokens, const std::string& help) {
  command
      .add_option_function<std::string>(
          "--tokens",
          [&tokens](const std::string& text) { tokens = token_count(text).value_or(0.0); }, help)
      ->type_name("TOKENS")
      ->check([](const std::string& text) {
        return token_count(text) ? "" : text + " is no number of tokens up to 1e18, such as 15T";
      });
}

void add_price_option(CLI::App& command, double& price, const std::string& help) {
  command.add_option("--price", price, help)
      ->type_name("PRICE")
      // CLI11's range check accepts "nan".
      ->check([](const std::string& text) {
        const double number = std::strtod(text.c_str(), nullptr);
        return std::isfinite(number) && number > 0.0 ? "" : text + " is no price, such as 2.5";
      });
}

CLI::Option* add_output_file(CLI::App& command, const std::string& names, std::string& file,
                             const std::string& help) {
  return command.add_option(names, file, help)
      ->type_name("FILE")
      ->transform([](const std::string& name) {
        if (name != "-" && name != "/dev/stdout") return name;
        silence_report();
        return std::string("/dev/stdout");
      });
}

void add_journal_option(CLI::App& command, std::string& file) {
  command
      .add_option("--journal", file,
                  "Keep one line of JSON per run in this file; started again, the command goes on "
                  "where it stopped")
      ->type_name("FILE");
}

void add_processes_option(CLI::App& command, std::size_t& processes) {
  command.add_option("--processes", processes, "Runs at a time (default: one per core)")
      ->type_name("N")
      ->check(in_range<std::int64_t>(0, 4096));
}

void add_seed_option(CLI::App& command, std::uint64_t& seed, const std::string& help) {
  command.add_option("--seed", seed, help)
      ->type_name("N")
      ->check(in_range<std::int64_t>(0, std::numeric_limits<std::int64_t>::max()));
}

std::vector<Override> overrides_of(const ScenarioChoice& choice) {
  std::vector<Override> overrides;
  if (choice.ideal) overrides.push_back(ideal_override());
  for (const std::string& set : choice.sets) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw InputError(Problem{.file = "--set",
                               .pointer = {},
                               .problem = "\"" + set + "\" is not PATH=VALUE",
                               .hint = "write for example --set parallelism.tensor=8"});
    }
    overrides.push_back({.path = set.substr(0, equals), .value = set.substr(equals + 1)});
  }
  return overrides;
}

Scenario read(const ScenarioChoice& choice) {
  return load_scenario(choice.file, overrides_of(choice));
}

Exit verdict(const RunView& view) { return everything_fits(view) ? Exit::Fine : Exit::RunSaysNo; }

std::string import_date() {
  std::time_t now = std::time(nullptr);
  if (const char* fixed = std::getenv("SOURCE_DATE_EPOCH")) {
    char* end = nullptr;
    const long long seconds = std::strtoll(fixed, &end, 10);
    if (end != fixed && *end == '\0') now = static_cast<std::time_t>(seconds);
  }
  std::tm day{};
  gmtime_r(&now, &day);
  return fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
}

std::string assumptions_text(const std::vector<std::string>& assumed) {
  std::string text = assumed.empty() ? "" : "assumed:\n";
  for (const std::string& sentence : assumed) text += "  - " + sentence + "\n";
  return text;
}

}  // namespace trainyard
