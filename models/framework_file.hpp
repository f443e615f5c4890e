// A framework's file, with what it leaves to the one that it is like.
//
//   {"title": "Megatron-Core of 2023", "like": "megatron", "kernel_time": {...}}
//
// has all that megatron.json has, but for what it says itself, down to single figures (a JSON merge
// patch, RFC 7386: null takes something away).
//
// The practices of a framework: how its runs are set up where nobody says otherwise.
//
// Frameworks are data (models/frameworks/*.json, "practices"), each practice with its source:
// fields of a scenario (scenarios/scenario.schema.json) and their values, and the kind of run that
// they hold for. A framework that is like another has the other's practices but for those that it
// names itself. What holds for every framework stands in models/stragglers/replicas.json.
//
//   "practices": {
//     "gradient_precision": {
//       "when": {"precision": "bf16"},
//       "scenario": {"training": {"gradient_precision": "bf16"}},
//       "source": "..."
//     }
//   }
//
//   for (const Practice& practice : load_practices("megatron_bridge")) ...
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/json_reader.hpp"

namespace trainyard {

// By name from models/frameworks, or a path. Throws InputError: no such file, no JSON, a "like"
// that is no name of a framework or names one that is like another itself.
[[nodiscard]] JsonFile framework_file(const std::string& name);

// ---- practices

// The runs that a practice holds for; what is not said holds for all.
struct PracticeCondition {
  std::string precision = {};        // of training: "bf16"
  std::optional<bool> experts = {};  // the model is a mixture of experts
  [[nodiscard]] bool holds(const std::string& precision, bool experts) const;
};

struct Practice {
  std::string name;
  PracticeCondition when;
  nlohmann::ordered_json scenario;  // sections and fields, as a scenario file has them
  std::string source;
};

// The practices of every framework, then those of the named one of models/frameworks. Throws
// InputError where a practice is malformed.
[[nodiscard]] std::vector<Practice> load_practices(const std::string& framework);

}  // namespace trainyard
