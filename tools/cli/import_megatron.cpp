// `trainyard import megatron`: makes a scenario from a launch script of Megatron-LM, or from its
// log.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/import/job_shape.hpp"
#include "scenarios/import/megatron.hpp"
#include "scenarios/reader/scenario.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/utf8.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"

namespace trainyard {

namespace {

struct LaunchChoice {
  std::string file;
  std::string out;
  std::vector<std::string> defines;  // NAME=VALUE
  LaunchMachine machine;
};

std::map<std::string, std::string> variables(const LaunchChoice& choice) {
  std::map<std::string, std::string> all;
  for (const std::string& define : choice.defines) {
    const std::size_t equals = define.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw InputError(Problem{.file = "--define " + define,
                               .pointer = {},
                               .problem = "is not of the form NAME=VALUE",
                               .hint = "--define NNODES=16"});
    }
    all[define.substr(0, equals)] = define.substr(equals + 1);
  }
  return all;
}

Exit import_launch(const LaunchChoice& choice) {
  refuse_unwritable(outputs_of({.json = choice.out}));
  const std::string text = as_utf8(read_file(choice.file));
  // Slurm's variables, and the size of the job where the launch's own arguments do not state it.
  std::map<std::string, std::string> defined = variables(choice);
  LaunchMachine machine = choice.machine;
  if (!machine.nodes) machine.job = job_sizes(text, choice.file, {.defined = defined});
  defined.merge(slurm_variables(text));
  const MegatronLaunch launch =
      scenario_of_megatron(read_launch_arguments(text, choice.file, defined), machine);
  // A scenario that Trainyard cannot run is refused before anything is written.
  const Scenario scenario = read_scenario_document(choice.out, launch.scenario);
  write_file(choice.out, launch.scenario.dump(2) + "\n");
  for (const std::string& note : launch.notes) say("supposed: {}\n", note);
  if (!launch.unknown.empty()) say("not looked at: {}\n", fmt::join(launch.unknown, ", "));
  say("Scenario  {}   ({} GPUs; trainyard run {})\n", choice.out, scenario.plan.world(),
      choice.out);
  return Exit::Fine;
}

}  // namespace

void add_import_megatron(CLI::App& import, Action& action) {
  auto choice = std::make_shared<LaunchChoice>();
  CLI::App* command = import.add_subcommand(
      "megatron", "A launch script of Megatron-LM, or the arguments in its log, as a scenario");
  command->add_option("file", choice->file, "The script or the log")->required();
  command->add_option("-o,--out", choice->out, "The scenario to write")->required();
  command->add_option("--node", choice->machine.node, "The node type it runs on")->required();
  command->add_option("--nodes", choice->machine.nodes, "How many, where the launch does not say");
  command->add_option("--vocab", choice->machine.vocab,
                      "Size of the vocabulary, where the launch does not say");
  command->add_option("--define", choice->defines, "What a variable of the script is, NAME=VALUE");
  command->footer(
      "Example:\n  trainyard import megatron tests/scenarios/import/pretrain_gpt.sh --node "
      "dgx_a100_80gb -o out/pretrain_gpt.json");
  command->callback([choice, &action] { action = [choice] { return import_launch(*choice); }; });
}

}  // namespace trainyard
