// A scenario written out in full: what ran is what this file says, whatever defaults change later.
#include <nlohmann/json.hpp>

#include "models/architecture/architecture.hpp"
#include "scenarios/reader/scenario.hpp"
#include "scenarios/reader/sections.hpp"
#include "scenarios/reader/tables.hpp"
#include "topologies/cluster_reader.hpp"

namespace trainyard {

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
        {{"field", one.field}, {"value", Json::parse(one.value)}, {"source", one.source}});
  if (scenario.published) json["published"] = write_fields(published_fields(), *scenario.published);
  return json;
}

}  // namespace trainyard
