// A scenario made from the files of another program: what every importer of a training framework
// returns.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trainyard {

struct ImportedScenario {
  nlohmann::ordered_json scenario;  // a document for the reader of scenarios
  // Assumptions, and properties of the run that a scenario cannot express, a sentence each.
  std::vector<std::string> assumed = {};
  // Settings that the importer does not use and that may matter, as the files spell them.
  std::vector<std::string> not_looked_at = {};
};

}  // namespace trainyard
