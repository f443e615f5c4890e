// `trainyard import hf-config`: reads a model's shape from the config.json that is stored with its
// weights.
#include <fmt/format.h>

#include <algorithm>

#include "models/architecture/architecture.hpp"
#include "scenarios/import/hf_config.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/json_reader.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"

namespace trainyard {

namespace {

struct ConfigChoice {
  std::string file;
  std::string out;  // empty: standard output
  std::string as;   // a model type; empty: the file's own
  bool families = false;
};

// Throws InputError for a shape that no model can have.
Architecture architecture_of(const std::string& file, const HfShape& made) {
  JsonFile shape = JsonFile::parse(file, made.shape.dump());
  const Architecture architecture = read_architecture(shape.root());
  shape.finish();
  return architecture;
}

Exit list_families() {
  std::size_t width = 0;
  for (const HfFamily& family : hf_families()) width = std::max(width, family.type.size());
  for (const HfFamily& family : hf_families())
    say("{:{}}  {}\n", family.type, width, family.models);
  return Exit::Fine;
}

Exit import_config(const ConfigChoice& choice) {
  if (choice.families) return list_families();
  if (choice.file.empty())
    throw InputError(Problem{.file = {},
                             .pointer = {},
                             .problem = "import hf-config takes a config.json",
                             .hint = "trainyard import hf-config "
                                     "tests/scenarios/import/hf/llama3_8b.json"});
  refuse_outputs({choice.out}, {choice.file});
  const HfShape made =
      shape_of_hf_config(parse_json(choice.file, read_file(choice.file)), choice.file, choice.as);
  const std::string text = made.shape.dump(2) + "\n";
  const Architecture architecture = architecture_of(choice.file, made);
  if (choice.out.empty()) {
    say("{}", text);
    for (const std::string& note : made.notes) tell(fmt::format("note: {}\n", note));
    return Exit::Fine;
  }
  write_file(choice.out, text);
  say("{:.4g} billion parameters, {:.4g} billion of them for each token\n",
      static_cast<double>(parameter_count(architecture)) / 1e9,
      static_cast<double>(active_parameter_count(architecture)) / 1e9);
  for (const std::string& note : made.notes) say("note: {}\n", note);
  say("Model  {}   (\"model\": \"{}\" in a scenario)\n", choice.out, choice.out);
  return Exit::Fine;
}

}  // namespace

void add_import_hf_config(CLI::App& import, Action& action) {
  auto choice = std::make_shared<ConfigChoice>();
  CLI::App* command = import.add_subcommand(
      "hf-config", "The config.json of a model on Hugging Face, as the shape of a model");
  command->add_option("file", choice->file, "The config.json");
  command->add_option("-o,--output", choice->out, "The model file to write (default: print it)");
  command->add_option("--as", choice->as,
                      "Read it as this model type, such as llama (default: the file's own), and "
                      "note what was assumed");
  command->add_flag("--families", choice->families,
                    "List the model types whose parts are known, with well-known models of each");
  command->footer(
      "Example:\n  trainyard import hf-config tests/scenarios/import/hf/llama3_8b.json\n"
      "A scenario may name a config.json as its model without importing it.");
  command->callback([choice, &action] { action = [choice] { return import_config(*choice); }; });
}

}  // namespace trainyard
