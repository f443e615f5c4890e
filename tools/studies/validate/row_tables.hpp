// Tables for what rows of data sets leave unsaid: which of our node types a machine is
// (data/platforms.json), and which framework of models/frameworks the words of a row mean, with
// what its source says of the runs elsewhere (data/published_facts.json). What runs of a framework
// have in common is the framework's own data (models/framework_file.hpp).
//
//   const RowTables tables = load_row_tables();
//   cluster_of(tables, row);     // {"node": "dgx_h100", "nodes": 8, "fabric": {...}}
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/studies/validate/measured_row.hpp"

namespace trainyard {

struct RowPlatform {
  std::string gpu;               // what the row's GPU begins with
  std::string nics;              // what its NICs begin with; empty: any
  std::string id;                // what its id begins with, for the machine of one source
  std::string node;              // of topologies/data
  nlohmann::ordered_json patch;  // over the node
  bool domain = false;           // the node is an NVLink domain, of which jobs take a part
};

// Where the framework, and the GPU, the model's name, the precision, the id and the notes where
// given, begin so, and the recomputation is just this: `scenario` goes over the scenario. Its
// "model_patch" goes over the model's shape.
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

}  // namespace trainyard
