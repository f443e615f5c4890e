// Documents that are changed in one place, and the verdicts of a JSON Schema validator on them.
#pragma once

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "tests/scenarios/sample.hpp"

namespace trainyard {

// One change of a valid document, and whether the result is still well formed.
struct SchemaCase {
  std::string pointer;
  nlohmann::ordered_json value;  // null: the key is removed
  bool good;
};

inline nlohmann::ordered_json changed(nlohmann::ordered_json document, const SchemaCase& change) {
  const nlohmann::ordered_json::json_pointer pointer(change.pointer);
  if (change.value.is_null()) {
    document[pointer.parent_pointer()].erase(pointer.back());
  } else {
    document[pointer] = change.value;
  }
  return document;
}

constexpr const char* kNoValidator =
    "SKIPPED, NOT TESTED: the agreement of schema and reader needs the package python3-jsonschema";

// Returns whether each document is valid by the schema alone, as Debian's python3-jsonschema says.
// Returns nothing where that package is missing. Throws std::runtime_error if it fails.
inline std::optional<std::vector<bool>> verdicts(const nlohmann::ordered_json& schema,
                                                 const nlohmann::ordered_json& documents) {
  const std::string python = "/usr/bin/python3";
  if (std::system((python + " -c 'import jsonschema' 2>/dev/null").c_str()) != 0) return {};
  const TemporaryFolder folder;
  const std::string program = folder.write("judge.py", R"(import json, sys, jsonschema
schema, documents = (json.load(open(name)) for name in sys.argv[1:3])
jsonschema.Draft202012Validator.check_schema(schema)
judge = jsonschema.Draft202012Validator(schema)
json.dump([judge.is_valid(document) for document in documents], open(sys.argv[3], 'w'))
)");
  const std::string answer = folder.write("verdicts.json", "");
  const std::string command = python + " " + program + " " +
                              folder.write("schema.json", schema.dump()) + " " +
                              folder.write("documents.json", documents.dump()) + " " + answer;
  if (std::system(command.c_str()) != 0) throw std::runtime_error("the validator fails");
  return parse_unchecked_json(read_file(answer)).get<std::vector<bool>>();
}

}  // namespace trainyard
