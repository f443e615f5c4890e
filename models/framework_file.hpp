// The file of a framework, merged with the file that it is "like".
//
//    {"title": "Megatron-Core of 2023", "like": "megatron", "kernel_time": {...}}
//
// has everything that megatron.json has, except for its own entries, down to single figures (a JSON
// merge patch, RFC 7386: null removes an entry).
//
// The file also holds the practices of a framework: the defaults of its runs where the scenario
// gives no value.
//
// Frameworks are data (models/frameworks/*.json, "practices"). Each practice has its source, fields
// of a scenario (scenarios/scenario.schema.json) with their values, and the kind of run that it
// applies to. A framework that is like another one has the practices of the other, except for those
// that it defines itself. Practices of every framework are in models/stragglers/replicas.json.
//
//    "practices": {
//      "gradient_precision": {
//        "when": {"precision": "bf16"},
//        "scenario": {"training": {"gradient_precision": "bf16"}},
//        "source": "..."
//      }
//    }
//
//    for (const Practice& practice : load_practices("megatron_bridge"))
//      fmt::print("{} ({})\n", practice.name, practice.source);
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/json_reader.hpp"

namespace trainyard {

// By name from models/frameworks, or a path. Throws InputError if there is no such file, if it is
// not JSON, or if its "like" is not the name of a framework or names one that has a "like" itself.
[[nodiscard]] JsonFile framework_file(const std::string& name);

// ---- practices

// The runs that a practice applies to. An absent condition holds for all runs.
struct PracticeCondition {
  std::string precision = {};        // precision of training: "bf16"
  std::optional<bool> experts = {};  // whether the model is a mixture of experts
  [[nodiscard]] bool holds(const std::string& precision, bool experts) const;
};

struct Practice {
  std::string name;
  PracticeCondition when;
  nlohmann::ordered_json scenario;  // sections and fields, as in a scenario file
  std::string source;
};

// The practices of every framework, then those of the named one of models/frameworks. Throws
// InputError where a practice is malformed.
[[nodiscard]] std::vector<Practice> load_practices(const std::string& framework);

}  // namespace trainyard
