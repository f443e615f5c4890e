// `trainyard import nccl-tests`: logs of nccl-tests as a collective profile.
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "scenarios/import/nccl_log.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/utf8.hpp"
#include "sim/collectives/profile/collective_profile.hpp"
#include "sim/report/result_json.hpp"
#include "tools/cli/import_formats.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "tools/cli/profile_text.hpp"
#include "tools/studies/collective/groups.hpp"

namespace trainyard {

namespace {

struct LogChoice {
  std::vector<std::string> logs;
  std::string out;
  std::string op;
  std::uint32_t ranks = 0;  // 0: as the log says
  std::uint32_t nodes = 0;
  std::string gpu;
};

LogHints hints_of(const LogChoice& choice) {
  LogHints hints;
  if (!choice.op.empty()) hints.op = collective_named(choice.op, "--op");
  if (choice.ranks > 0) hints.ranks = choice.ranks;
  if (choice.nodes > 0) hints.nodes = choice.nodes;
  if (!choice.gpu.empty()) hints.gpu = choice.gpu;
  return hints;
}

Exit import_logs(const LogChoice& choice) {
  Outputs outputs;
  outputs.json = choice.out;
  refuse_unwritable(outputs);
  const LogHints hints = hints_of(choice);
  std::vector<MeasuredRun> runs;
  for (const std::string& log : choice.logs)
    for (MeasuredRun& run : read_nccl_log(log, as_utf8(read_file(log)), hints))
      runs.push_back(std::move(run));
  const CollectiveProfile profile = make_collective_profile(std::move(runs), import_date());
  write_file(choice.out, to_text(to_json(profile), 1));
  say("{}\nProfile  {}   (trainyard collective ... --profile {})\n", profile_text(profile),
      choice.out, choice.out);
  return Exit::Fine;
}

}  // namespace

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

void add_import_nccl_tests(CLI::App& import, Action& action) {
  auto choice = std::make_shared<LogChoice>();
  CLI::App* command = import.add_subcommand(
      "nccl-tests", "Logs of all_reduce_perf and its siblings, as a profile with a fit");
  command->add_option("logs", choice->logs, "Logs, as text or the JSON of -J")->required();
  command->add_option("-o,--out", choice->out, "The profile to write")->required();
  command->add_option("--op", choice->op, "The collective, where the log does not say");
  command->add_option("--ranks", choice->ranks, "Ranks, where the log does not list them");
  command->add_option("--nodes", choice->nodes, "Nodes, where the log does not list them");
  command->add_option("--gpu", choice->gpu, "The GPU's name, where the log does not say");
  command->footer(
      "Example:\n  trainyard import nccl-tests tests/scenarios/import/h8.log "
      "-o profile.json");
  command->callback([choice, &action] { action = [choice] { return import_logs(*choice); }; });
}

}  // namespace trainyard
