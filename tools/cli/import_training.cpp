// The subcommands of `trainyard import` that make a scenario from the files of a training
// framework, one for each row of training_formats().
#include <fmt/format.h>

#include <algorithm>

#include "scenarios/import/training/training_format.hpp"
#include "scenarios/reader/scenario.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/letters.hpp"
#include "sim/base/utf8.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/import_format.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"

namespace trainyard {

namespace {

// Returns whether a text has the name between other letters than those of names.
bool has_name(std::string_view text, std::string_view name) {
  const auto is_in_name = [&](std::size_t at) {
    return at < text.size() && (is_letter_or_digit(text[at]) || text[at] == '_');
  };
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1))
    if ((at == 0 || !is_in_name(at - 1)) && !is_in_name(at + name.size())) return true;
  return false;
}

ImportRequest request_of(const TrainingChoice& choice) {
  ImportRequest request{.machine = choice.machine};
  for (const std::string& file : choice.files)
    request.files.push_back({.name = file, .text = as_utf8(read_file(file))});
  request.defines = defined_variables(choice.defines, request.files);
  return request;
}

// Refuses configurations of other programs: a format would take defaults for what it does not find.
void check_format(const TrainingFormat& format, const std::vector<std::string>& files) {
  std::vector<ImportSample> documents;
  for (const std::string& file : files)
    if (ImportSample sample = read_sample(file); sample.document.is_object())
      documents.push_back(std::move(sample));
  if (documents.empty() || std::ranges::any_of(documents, format.looks_like)) return;
  const std::vector<const ImportFormat*> others = formats_like(documents.front());
  const std::string& file = documents.front().file;
  throw InputError(Problem{
      .file = file,
      .pointer = {},
      .problem = fmt::format("has no setting by which a file of {} is known", format.name),
      .hint = others.empty() ? fmt::format("`trainyard import --guess {}` finds the format", file)
                             : fmt::format("it looks like {}", others.front()->name)});
}

void say_settings(const std::vector<std::string>& settings) {
  if (settings.empty()) return;
  say("not looked at:\n");
  for (const std::string& setting : settings) say("  - {}\n", setting);
}

Exit import_training(const TrainingFormat& format, const TrainingChoice& choice) {
  refuse_outputs({choice.out}, {choice.files.begin(), choice.files.end()});
  if (choice.files.size() > format.most_files) {
    throw InputError(Problem{
        .file = choice.files[format.most_files],
        .pointer = {},
        .problem = fmt::format("is one file too many: {} reads {}", format.name, format.most_files),
        .hint = {}});
  }
  check_format(format, choice.files);
  const ImportedScenario made = format.read(request_of(choice));
  // A scenario that Trainyard cannot run is refused before anything is written.
  const Scenario scenario = read_scenario_document(choice.out, made.scenario);
  write_file(choice.out, made.scenario.dump(2) + "\n");
  say("{}", assumptions_text(made.assumed));
  say_settings(made.not_looked_at);
  say("Scenario  {}   ({} GPUs; trainyard run {})\n", choice.out, scenario.plan.world(),
      choice.out);
  return Exit::Fine;
}

}  // namespace

std::map<std::string, std::string> defined_variables(const std::vector<std::string>& defines,
                                                     const std::vector<ImportFile>& files) {
  std::map<std::string, std::string> all;
  for (const std::string& define : defines) {
    const std::size_t equals = define.find('=');
    if (equals == std::string::npos || equals == 0)
      throw InputError(Problem{.file = "--define " + define,
                               .pointer = {},
                               .problem = "is not of the form NAME=VALUE",
                               .hint = "--define NNODES=16"});
    const std::string name = define.substr(0, equals);
    if (std::ranges::none_of(files, [&](const auto& file) { return has_name(file.text, name); }))
      throw InputError(
          Problem{.file = "--define " + define,
                  .pointer = {},
                  .problem = files.size() == 1
                                 ? fmt::format("{} has no variable {}", files.front().name, name)
                                 : "none of the files has a variable " + name,
                  .hint = "correct the name, or leave it out"});
    all[name] = define.substr(equals + 1);
  }
  return all;
}

void add_training_options(CLI::App& command, TrainingChoice& choice) {
  command.add_option("-o,--output", choice.out, "The scenario to write");
  command.add_option("--node", choice.machine.node, "The node type it runs on");
  command.add_option("--nodes", choice.machine.nodes, "How many, where the files do not say");
  command.add_option("--gpus", choice.machine.gpus,
                     "GPUs of the whole run, where the files do not say");
  command.add_option("--vocab", choice.machine.vocab,
                     "Size of the vocabulary, where the files do not say");
  command.add_option("--sequence", choice.machine.sequence,
                     "Tokens of a sequence, where the files do not say");
  command.add_option("--model", choice.machine.model,
                     "A model or the path of its config.json, where the files only name it");
  command.add_option("--define", choice.defines, "What a variable of a script is, NAME=VALUE");
}

void add_import_training(const TrainingFormat& format, CLI::App& import, Action& action) {
  auto choice = std::make_shared<TrainingChoice>();
  CLI::App* command =
      import.add_subcommand(std::string(format.name), std::string(format.what) + ", as a scenario");
  command->add_option("files", choice->files, "The file, or several")->required();
  add_training_options(*command, *choice);
  command->get_option("--output")->required();
  command->get_option("--node")->required();
  command->footer(fmt::format("Example:\n  trainyard import {} {} {} -o out/{}.json", format.name,
                              format.example, format.options, format.name));
  command->callback([choice, &format, &action] {
    action = [choice, &format] { return import_training(format, *choice); };
  });
}

}  // namespace trainyard
