// `trainyard init`: writes a commented scenario from a few answers, with a layout that fits in
// memory.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "models/architecture/architecture.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/nearest.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/start/first_scenario.hpp"
#include "topologies/cluster_reader.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

struct InitChoice {
  std::string out = "scenario.json";
  std::string model = "llama3-8b";
  std::string node = "dgx_h100";
  std::int64_t nodes = 1;
  std::int64_t sequence = 0;  // 0: the usual one
  std::int64_t batch = 0;     // 0: the usual one
  bool yes = false;
  bool force = false;
};

// Questions go to standard error, so that standard output holds the answer alone. An empty line
// takes the default. Nobody can answer any more after the end of the input (Ctrl-D).
std::string asked(const std::string& question, const std::string& otherwise) {
  tell(fmt::format("{} [{}] ", question, otherwise));
  std::string answer;
  if (!std::getline(std::cin, answer))
    throw InputError({"init", "", "the input ended before an answer",
                      "answer every question, or use --yes with --model, --node and --nodes"});
  return answer.empty() ? otherwise : answer;
}

std::int64_t asked_number(const std::string& question, std::int64_t otherwise) {
  for (;;) {
    const std::string answer = asked(question, fmt::format("{}", otherwise));
    const bool digits = std::all_of(answer.begin(), answer.end(),
                                    [](char letter) { return letter >= '0' && letter <= '9'; });
    if (digits && answer.size() < 10 && std::stoll(answer) > 0) return std::stoll(answer);
    tell(fmt::format("\"{}\" is not a whole number above 0.\n", answer));
  }
}

std::string asked_name(const std::string& question, const std::string& otherwise,
                       const std::vector<std::string>& names) {
  for (;;) {
    const std::string answer = asked(question, otherwise);
    const bool path = answer.find('/') != std::string::npos || answer.ends_with(".json");
    if (path || std::find(names.begin(), names.end(), answer) != names.end()) return answer;
    tell(fmt::format("There is no \"{}\" ({}).\n", answer, suggestion(answer, names)));
  }
}

InitChoice with_answers(InitChoice choice) {
  choice.model = asked_name("Which model (a name of `trainyard list models`, or a config.json)?",
                            choice.model, architecture_names());
  choice.node =
      asked_name("Which nodes (a name of `trainyard list nodes`)?", choice.node, node_names());
  choice.nodes = asked_number("How many nodes?", choice.nodes);
  choice.sequence =
      asked_number("Tokens in a sequence?",
                   choice.sequence == 0 ? usual_sequence(choice.model) : choice.sequence);
  return choice;
}

// One field of the document as text, after a comment line.
std::string commented(const std::string& comment, const std::string& key, const Json& value,
                      bool last = false) {
  return fmt::format("\n  // {}\n  \"{}\": {}{}\n", comment, key, value.dump(), last ? "" : ",");
}

std::string scenario_text(const InitChoice& choice, const FirstScenario& first) {
  const Json& document = first.document;
  const std::string title = fmt::format("{} on {} x {}", choice.model, choice.nodes, choice.node);
  return fmt::format("{{\n  \"description\": {},\n", Json(title).dump()) +
         commented(
             "A name (trainyard list models), the config.json of a model on Hugging "
             "Face, or a shape.",
             "model", document["model"]) +
         commented("Node type (trainyard list nodes), how many, and how they are joined.",
                   "cluster", document["cluster"]) +
         commented(
             "tensor x pipeline x data is the number of GPUs. This is the first layout that "
             "fits;\n  // `trainyard search` finds the best.",
             "parallelism", document["parallelism"]) +
         commented(
             "recompute: none, selective or full. More: precision, recipe, optimizer "
             "(trainyard schema).",
             "training", document["training"], true) +
         "}\n";
}

bool is_there(const std::filesystem::path& file) {
  std::error_code error;  // refuse_unwritable() has reported paths that cannot be read
  return std::filesystem::exists(file, error);
}

Exit init(InitChoice choice) {
  refuse_unwritable(outputs_of({.json = choice.out}));
  if (!choice.force && is_there(choice.out)) {
    throw InputError(Problem{.file = choice.out,
                             .pointer = {},
                             .problem = "is already there",
                             .hint = "name another file with --output, or say --force"});
  }
  if (!choice.yes && isatty(STDIN_FILENO) != 0) choice = with_answers(std::move(choice));
  const FirstScenario first = first_scenario({.name = choice.out,
                                              .model = known_model(choice.model),
                                              .node = choice.node,
                                              .nodes = choice.nodes,
                                              .sequence = choice.sequence,
                                              .batch = choice.batch});
  write_file(choice.out, scenario_text(choice, first));
  const FirstLayout& layout = first.layout;
  say("Scenario  {}   ({} GPUs: {} tensor x {} pipeline x {} data, ZeRO {}, recompute {}; a step "
      "of {})\nNext: trainyard run {} ; trainyard search {}\n",
      choice.out, first.gpus, layout.tensor, layout.pipeline,
      first.document["parallelism"]["data"].get<std::int64_t>(), layout.zero_stage,
      layout.recompute, to_text(Seconds{first.step_time_s}), choice.out, choice.out);
  return Exit::Fine;
}

}  // namespace

void add_init(CLI::App& app, Action& action) {
  auto choice = std::make_shared<InitChoice>();
  CLI::App* command = app.add_subcommand(
      "init", "Write a commented scenario from a few answers, that runs as it is");
  const auto with_default = [&](const char* name, auto& value, const char* what, const char* type) {
    return command->add_option(name, value, what)->capture_default_str()->type_name(type);
  };
  with_default("-o,--output", choice->out, "The scenario to write", "FILE");
  with_default("--model", choice->model, "A name of `trainyard list models`, or a config.json",
               "NAME");
  with_default("--node", choice->node, "A name of `trainyard list nodes`", "NAME");
  with_default("--nodes", choice->nodes, "How many", "N")->check(in_range(1, 65536));
  command
      ->add_option("--sequence", choice->sequence,
                   "Tokens in a sequence (default: 8192, or what the model takes)")
      ->type_name("N")
      ->check(in_range(1, 1 << 24));
  command
      ->add_option("--batch", choice->batch,
                   "Sequences in a step (default: the tokens of published runs of its size)")
      ->type_name("N")
      ->check(in_range(1, 1 << 24));
  command->add_flag("-y,--yes", choice->yes, "Ask nothing: take the options and their defaults");
  command->add_flag("--force", choice->force, "Replace a scenario that is there");
  command->footer(
      "Example:\n  trainyard init --yes --model llama3-8b --node dgx_h100 --nodes 2 "
      "--output mine.json\nOn a terminal it asks for what --yes would take for granted.");
  command->callback([choice, &action] { action = [choice] { return init(*choice); }; });
}

}  // namespace trainyard
