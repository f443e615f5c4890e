// Converts a measured row to the scenario that predicts it.
//
// The scenario takes the statements of the row unchanged. The rest comes from tables and from the
// rules in row_scenario.cpp, and each of them is listed in the scenario's assumptions.
//
//    const RowTables tables = load_row_tables();
//    nlohmann::ordered_json document = row_scenario(tables, row);   // a file `trainyard run` takes
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/studies/validate/dataset.hpp"

namespace trainyard {

// A machine of public tables, as one of the node types of topologies/data.
struct RowPlatform {
  std::string gpu;               // prefix of the row's GPU
  std::string nics;              // prefix of the row's NICs; empty: any
  std::string id;                // prefix of the row's id, for the machine of one source
  std::string node;              // of topologies/data
  nlohmann::ordered_json patch;  // merged into the node
  bool domain = false;           // the node is an NVLink domain, of which jobs use a part
};

// A fact about some runs that their source states elsewhere. It applies if the row's framework (and
// its GPU, model name, precision, id and notes, if given) begin with these texts, and its
// recomputation is equal to the given one. Then `scenario` is merged into the scenario, and its
// "model_patch" into the model's shape.
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

// Tables for what rows of data sets leave out: the node type of a machine (data/platforms.json),
// and the framework of models/frameworks that a row means, with further statements of its source
// about the runs (data/published_facts.json). Common properties of the runs of a framework are data
// of the framework itself (models/framework_file.hpp).
struct RowTables {
  std::vector<RowPlatform> platforms;
  std::vector<PublishedFact> facts;
};

// Throws InputError.
[[nodiscard]] RowTables load_row_tables();

// The cluster of the row, as in a scenario. Its node is the one that the row names (/hardware/node,
// a name or a file), else the one that is described next to its data set, else the one of its GPU's
// platform. Throws InputError if there is none.
[[nodiscard]] nlohmann::ordered_json cluster_of(const RowTables& tables, const MeasuredRow& row);

// The document with every matching fact merged into it, in order. The source of each fact is added
// to the assumptions.
[[nodiscard]] nlohmann::ordered_json with_facts(const RowTables& tables, const MeasuredRow& row,
                                                nlohmann::ordered_json document);

// The scenario file. Throws InputError if the row states something that no scenario can express;
// the message is the reason. The reader reports what a scenario can express but this version
// refuses.
[[nodiscard]] nlohmann::ordered_json row_scenario(const RowTables& tables, const MeasuredRow& row);

}  // namespace trainyard
