// From a measured row to the scenario that predicts it.
//
// The scenario takes what the row says as it is. The rest comes from tables and from the rules in
// row_scenario.cpp, each written into the scenario's assumptions.
//
//   const RowTables tables = load_row_tables();
//   nlohmann::ordered_json document = row_scenario(tables, row);   // a file `trainyard run` takes
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/studies/validate/dataset.hpp"

namespace trainyard {

// A machine of public tables, as one of our node types.
struct RowPlatform {
  std::string gpu;               // what the row's GPU begins with
  std::string nics;              // what its NICs begin with; empty: any
  std::string id;                // what its id begins with, for the machine of one source
  std::string node;              // of topologies/data
  nlohmann::ordered_json patch;  // over the node
  bool domain = false;           // the node is an NVLink domain, of which jobs take a part
};

// A fact that the source of some runs says elsewhere. Where the framework of a row begins so (and
// its GPU, the model's name, the precision, the id and the notes, where given), and the
// recomputation is just this, `scenario` goes over the scenario. Its "model_patch" goes over the
// model's shape.
struct PublishedFact {
  std::string framework;
  std::string gpu;
  std::string model;
  std::string precision;
  std::string id;
  std::string notes;
  std::string recompute;
  std::string source;
  nlohmann::ordered_json scenario;
};

// Tables for what rows of data sets leave unsaid: which of our node types a machine is
// (data/platforms.json), and which framework of models/frameworks the words of a row mean, with
// what its source says of the runs elsewhere (data/published_facts.json). What runs of a framework
// have in common is the framework's own data (models/framework_file.hpp).
struct RowTables {
  std::vector<RowPlatform> platforms;
  std::vector<PublishedFact> facts;
};

// Throws InputError.
[[nodiscard]] RowTables load_row_tables();

// The cluster of the row, as in a scenario: of the node that the row names itself (/hardware/node,
// a name or a file), else the one described beside its data set, else of its GPU's platform. Throws
// InputError where there is neither.
[[nodiscard]] nlohmann::ordered_json cluster_of(const RowTables& tables, const MeasuredRow& row);

// The document with every fact that matches the row gone over it, in order, and its source
// among the assumptions.
[[nodiscard]] nlohmann::ordered_json with_facts(const RowTables& tables, const MeasuredRow& row,
                                                nlohmann::ordered_json document);

// The scenario file. Throws InputError where the row says what no scenario can: the message is the
// reason. What a scenario could say but this version refuses is for its reader to tell.
[[nodiscard]] nlohmann::ordered_json row_scenario(const RowTables& tables, const MeasuredRow& row);

}  // namespace trainyard
