// Reads a configuration file in YAML, TOML or JSON as one JSON document.
//
//    ConfigDocument document = read_config(read_file("train.toml"), "train.toml");
//    document.values["training"]["seq_len"];   // 8192
//    document.lines.at("training.seq_len");    // 12
//
// Scalars of YAML have the types that PyYAML gives them, since the programs that write these files
// read them with it: true, yes and on are true; null, ~ and nothing are null; 10_000 is 10000. A
// number without a point before its exponent (1e-5), which PyYAML takes for text, is a number.
// References of OmegaConf to other values (${model.hidden_size}, ${.hidden_size}) are replaced.
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trainyard {

struct ConfigDocument {
  std::string file;               // as the user named it
  nlohmann::ordered_json values;  // an object
  // Line of each value, counted from one, by its path: "training.seq_len" -> 12. JSON has none.
  std::map<std::string, std::size_t> lines = {};
  // A sentence for each value that another one of the same name replaces.
  std::vector<std::string> notes = {};
};

// The ending of the file's name says its syntax: .json, .toml, .yaml or .yml. A file with another
// ending is JSON if it begins with a brace, else YAML. Throws InputError with the line of a syntax
// error, and for a document that is not a mapping or is too large or too deep.
[[nodiscard]] ConfigDocument read_config(const std::string& text, const std::string& file);

}  // namespace trainyard
