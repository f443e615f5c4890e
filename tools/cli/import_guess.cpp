// `trainyard import --guess FILE`: finds the format of a file, and imports it where the options of
// that format are there.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "scenarios/import/training/config_document.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/utf8.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/import_format.hpp"
#include "tools/cli/print.hpp"

namespace trainyard {

namespace {

struct GuessChoice {
  TrainingChoice training;
  std::string gpu;
};

[[noreturn]] void refuse(const std::string& file, const std::string& problem,
                         const std::string& hint) {
  throw InputError(Problem{.file = file, .pointer = {}, .problem = problem, .hint = hint});
}

const ImportFormat& only_format(const std::string& file) {
  const std::vector<const ImportFormat*> found = formats_like(read_sample(file));
  if (found.size() == 1) return *found.front();
  std::vector<std::string> names;
  if (found.empty()) {
    for (const ImportFormat& format : import_formats()) names.push_back(format.name);
    refuse(file, fmt::format("is of no known format; tried {}", fmt::join(names, ", ")),
           "name the format, as in `trainyard import megatron FILE`");
  }
  for (const ImportFormat* format : found) names.push_back(format->name);
  refuse(file, fmt::format("may be {}", fmt::join(names, " or ")),
         fmt::format("say which: trainyard import {} {}", names.front(), file));
}

// The words of the command that imports the files, after `trainyard`.
std::vector<std::string> words_of(const GuessChoice& choice, const ImportFormat& format) {
  std::vector<std::string> words = {"import", format.name};
  const TrainingChoice& training = choice.training;
  words.insert(words.end(), training.files.begin(), training.files.end());
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  const auto add_number = [&](const char* option, const std::optional<std::int64_t>& value) {
    if (value) add(option, std::to_string(*value));
  };
  add("--output", training.out);
  add("--node", training.machine.node);
  add_number("--nodes", training.machine.nodes);
  add_number("--gpus", training.machine.gpus);
  add_number("--vocab", training.machine.vocab);
  add_number("--sequence", training.machine.sequence);
  add("--model", training.machine.model);
  add("--gpu", choice.gpu);
  for (const std::string& define : training.defines) add("--define", define);
  return words;
}

// Runs the subcommand as if the user had typed its words.
Exit run_words(std::vector<std::string> words) {
  CLI::App app;
  app.name("trainyard");
  app.require_subcommand(1);
  Action action;
  add_import(app, action);
  try {
    std::ranges::reverse(words);  // as the parser takes them
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    tell(fmt::format("trainyard: {}\n", usage_problem(app, error)));
    return Exit::BadInput;
  }
  return action();
}

Exit guess(const GuessChoice& choice) {
  const ImportFormat& format = only_format(choice.training.files.front());
  // A file that is refused leaves standard output empty, so the import comes first.
  const bool imports = !choice.training.out.empty();
  if (const Exit exit = imports ? run_words(words_of(choice, format)) : Exit::Fine;
      exit != Exit::Fine)
    return exit;
  say("Format  {}   ({})\n", format.name, format.what);
  if (imports) return Exit::Fine;
  say("Import it with\n  trainyard import {} {} {}\n", format.name,
      fmt::join(choice.training.files, " "), format.options);
  return Exit::Fine;
}

}  // namespace

ImportSample read_sample(const std::string& file) {
  ImportSample sample{.file = file, .text = {}, .document = nullptr};
  if (std::filesystem::is_directory(file)) return sample;
  sample.text = as_utf8(read_file(file));
  const std::string ending = std::filesystem::path(file).extension().string();
  const bool is_configuration =
      ending == ".json" || ending == ".toml" || ending == ".yaml" || ending == ".yml";
  try {
    sample.document = read_config(sample.text, file).values;
  } catch (const InputError&) {
    if (is_configuration) throw;  // with the line of the error
  }
  return sample;
}

std::vector<const ImportFormat*> formats_like(const ImportSample& sample) {
  std::vector<const ImportFormat*> found;
  for (const ImportFormat& format : import_formats())
    if (format.looks_like(sample)) found.push_back(&format);
  return found;
}

void add_import_guess(CLI::App& import, Action& action) {
  auto choice = std::make_shared<GuessChoice>();
  CLI::Option* files = import.add_option(
      "--guess", choice->training.files,
      "Find the format of a file (the first of several), and import it if --output is there");
  add_training_options(import, choice->training);
  import.add_option("--gpu", choice->gpu, "The GPU profile, for a format that needs it");
  for (CLI::Option* option : import.get_options())
    if (option != files && option->get_name() != "--help") option->needs(files);
  import.callback([&import, files, choice, &action] {
    if (!import.get_subcommands().empty()) return;
    if (files->empty()) throw CLI::RequiredError::Subcommand(1);
    action = [choice] { return guess(*choice); };
  });
}

}  // namespace trainyard
