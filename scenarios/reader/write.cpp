// Writes a scenario in full, and the JSON Schema of a scenario file. Both use the tables of the
// reader.
#include <nlohmann/json.hpp>

#include "models/architecture/architecture.hpp"
#include "scenarios/reader/power.hpp"
#include "scenarios/reader/reliability.hpp"
#include "scenarios/reader/scenario.hpp"
#include "scenarios/reader/tables.hpp"
#include "sim/base/json_parse.hpp"
#include "topologies/cluster_reader.hpp"

namespace trainyard {

// The resolved scenario documents what ran, whatever defaults change later.
namespace {

using Json = nlohmann::ordered_json;

Json collectives_json(const CollectiveChoice& choice) {
  Json json = Json::object();
  for (const GroupKind kind : group_kinds()) {
    for (const CollectiveOp op : chosen_operations()) {
      json[std::string(to_string(kind))][std::string(to_string(op))] = choice.of(kind, op);
    }
  }
  json["nccl"] = write_fields(nccl_fields(), choice.nccl);
  if (!choice.profile.empty()) json["profile"] = choice.profile;
  return json;
}

}  // namespace

// Sections that have no effect on this plan are left out.
Json resolved(const Scenario& scenario) {
  const TrainingPlan& plan = scenario.plan;
  Json json = write_fields(heading_fields(), scenario);
  json["model"] = write_fields(architecture_fields(), plan.architecture);
  json["cluster"] = to_json(scenario.cluster);
  for (const Section& section : sections())
    if (section.is_used(plan)) json[std::string(section.key)] = section.write(plan);
  json["collectives"] = collectives_json(plan.collectives);
  json.update(write_fields(run_fields(), scenario));
  for (const AppliedDefault& one : scenario.applied_defaults)
    json["applied_defaults"].push_back(
        {{"field", one.field}, {"value", parse_unchecked_json(one.value)}, {"source", one.source}});
  if (scenario.published) json["published"] = write_fields(published_fields(), *scenario.published);
  if (scenario.reliability) json["reliability"] = reliability_json(*scenario.reliability);
  if (scenario.power) json["power"] = power_json(*scenario.power);
  return json;
}

// The JSON Schema of a scenario file, for editors. The reader has precedence: a schema cannot
// express that heads divide by tensor. The schema is generated from the reader's tables.
namespace {

Json with_description(std::string_view description, const Json& schema) {
  Json json{{"description", description}};
  json.update(schema);
  return json;
}

Json model_schema() {
  Json shape = schema_of_fields(architecture_fields(), default_architecture());
  shape["properties"]["description"] = {{"description", "a sentence about the model"},
                                        {"type", "string"}};
  Json name{{"type", "string"},
            {"description", "a name from models/data, or the path of a .json file"}};
  return {{"description", "the model: a name, a path, or its shape"},
          {"anyOf", Json::array({std::move(name), std::move(shape)})}};
}

}  // namespace

Json cluster_schema() {
  Json kinds = Json::array();
  Json properties = Json::object();
  for (const FabricEntry& fabric : fabrics()) {
    kinds.push_back(fabric.name);
    for (const std::string_view key : fabric.keys) properties[std::string(key)] = Json::object();
  }
  properties["reduces"] = {{"description", "its switches add what passes through them (SHARP)"},
                           {"type", "boolean"}};
  properties["kind"] = {
      {"description", "how the nodes are joined"}, {"type", "string"}, {"enum", kinds}};
  Json fabric{{"type", "object"}, {"additionalProperties", false}};
  fabric["properties"] = std::move(properties);
  Json node{{"description",
             "a name from topologies/data, a path, the node's parts, or {\"like\": name} with the "
             "parts that differ"},
            {"type", Json::array({"string", "object"})}};
  Json nodes{{"description", "how many of them"}, {"type", "integer"}, {"minimum", 1}};
  Json nic{{"description", "other NICs in the node: usable, nominal, latency"}, {"type", "object"}};
  Json others{{"description", "nodes of another kind: [{\"nodes\": [2, 3], \"node\": ...}]"},
              {"type", "array"}};
  Json faults{{"description",
               "links, rails and devices that are dead or slow, always or between two dates "
               "(`from`, `until`)"},
              {"type", "array"}};
  Json sites{{"description",
              "nodes in several places: `count` of them, and the `rate` and `latency` of a line "
              "between two"},
             {"type", "object"}};
  return {{"type", "object"},
          {"properties",
           {{"node", std::move(node)},
            {"nodes", std::move(nodes)},
            {"nic", std::move(nic)},
            {"fabric", std::move(fabric)},
            {"sites", std::move(sites)},
            {"others", std::move(others)},
            {"faults", std::move(faults)}}}};
}

namespace {

Json operations_schema() {
  Json operations = Json::object();
  for (const CollectiveOp op : chosen_operations()) {
    Json& operation = operations[std::string(to_string(op))];
    // A name, a name with an argument ("parameter_server:4"), or a user's file.
    const Json names{{"enum", algorithm_names(op)}};
    const Json others{{"type", "string"}, {"pattern", ":|\\.(json|xml)$"}};
    operation = {{"anyOf", Json::array({names, others})}, {"default", CollectiveChoice::kStandard}};
  }
  return {
      {"type", "object"}, {"additionalProperties", false}, {"properties", std::move(operations)}};
}

Json collectives_schema() {
  Json properties = Json::object();
  for (const GroupKind kind : group_kinds()) {
    properties[std::string(to_string(kind))] = operations_schema();
  }
  properties["nccl"] = with_description("how NCCL chooses, where it is left to NCCL",
                                        schema_of_fields(nccl_fields(), nccl::Settings{}));
  properties["profile"] = {
      {"description",
       "a file of `trainyard import nccl-tests`: its times replace those of NCCL's model"},
      {"type", "string"}};
  return {{"description", "the algorithm of each operation, by kind of group"},
          {"type", "object"},
          {"additionalProperties", false},
          {"properties", std::move(properties)}};
}

}  // namespace

Json scenario_schema() {
  const Scenario defaults;
  Json properties = schema_of_fields(heading_fields(), defaults)["properties"];
  properties["model"] = model_schema();
  properties["cluster"] = with_description(
      "nodes of one kind joined by a fabric, or a cluster of one's own", cluster_schema());
  for (const Section& section : sections())
    properties[std::string(section.key)] = with_description(section.meaning, section.schema());
  // A placement may also be the path of a file, which the reader replaces by its list.
  Json& placement = properties["parallelism"]["properties"]["placement"];
  placement["type"] = Json::array({"array", "string"});
  properties["collectives"] = collectives_schema();
  properties.update(schema_of_fields(run_fields(), defaults)["properties"]);
  properties["applied_defaults"] = {
      {"description", "of a scenario written out: which of its fields were filled in"},
      {"type", "array"},
      {"items", {{"type", "object"}, {"required", Json::array({"field", "value", "source"})}}}};
  properties["published"] = with_description("a measured result to compare with",
                                             schema_of_fields(published_fields(), Published{}));
  properties["reliability"] =
      with_description("failures, checkpoints and recovery of a run of weeks (trainyard goodput)",
                       reliability_schema());
  properties["power"] =
      with_description("power caps, PUE and prices; with it, a run reports energy", power_schema());
  properties["$schema"] = {{"description", "this schema, for editors"}, {"type", "string"}};
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "Trainyard scenario"},
          {"type", "object"},
          {"additionalProperties", false},
          {"properties", std::move(properties)},
          {"required", Json::array({"model", "cluster", "training"})}};
}

}  // namespace trainyard
