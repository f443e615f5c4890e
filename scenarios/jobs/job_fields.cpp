#include "scenarios/jobs/job_fields.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "scenarios/reader/tables.hpp"
#include "sim/base/words.hpp"
#include "sim/engine/engine.hpp"
#include "topologies/cluster_reader.hpp"
#include "topologies/fields.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;
using J = JobSpec;

constexpr double kPriorityMost = 16.0;
constexpr std::int64_t kStepsMost = 10'000;

const Field<Jobs> kFile[] = {
    {"description", "a sentence about the jobs", Text<Jobs>{&Jobs::description}},
    {"source", "where the settings come from", Text<Jobs>{&Jobs::source}},
    {"assumptions", "settings that the source does not state and this file assumes",
     Texts<Jobs>{&Jobs::assumptions}},
    {"cluster", "the cluster that the jobs share, with the fields of a scenario's cluster",
     Own<Jobs>{.read =
                   [](JsonObject& root, std::string_view key, Jobs& jobs) {
                     jobs.cluster = read_cluster(root.object(key),
                                                 std::filesystem::path(jobs.file).parent_path());
                   },
               .schema = [](const Jobs&) { return cluster_schema(); },
               .required = true}},
    {"engine", "what shares the links among flows", name_of<Jobs, &Jobs::engine, engine_names>()},
};

// Marks the field as known and read.
void read_later(JsonObject& job, std::string_view key, J&) { (void)job.raw(key); }

// A scenario of a job that names its GPUs needs no cluster.
Json scenario_of_job(const J&) {
  const Json file{{"description", "a file of `trainyard run`"}, {"type", "string"}};
  return {{"anyOf", Json::array({file, {{"$ref", "#/$defs/scenario"}}})}};
}

const Field<J> kJob[] = {
    {"name", "a name for reports and traces; without it \"job 0\", \"job 1\" and so on",
     Text<J>{&J::name}},
    {"scenario", "what the job trains: a file of `trainyard run`, or a scenario written here",
     Own<J>{.read = read_later, .schema = scenario_of_job}},
    {"set", "changes of the scenario by path, such as {\"parallelism.data\": 4}",
     Own<J>{.read = read_later,
            .schema = [](const J&) -> Json {
              return {{"type", "object"}};
            }}},
    {"gpus",
     "GPUs of the job; those of training are whole nodes of the cluster. Without it, training has "
     "as many as the cluster of its scenario, which must have the same GPU, and traffic with "
     "another job as many as that one",
     count<&J::gpus, 1, Absent::Default, kCountMost>()},
    {"placement", "the GPUs of the cluster that the job gets",
     Own<J>{.read = [](JsonObject& job, std::string_view key,
                       J& spec) { spec.placement = read_placement(job, key); },
            .schema = [](const J&) { return placement_schema(); }}},
    {"start", "when its first step begins", time<&J::start>()},
    {"steps", "how many steps it makes; without it, the job runs as long as the others",
     OptionalWhole<J>{&J::steps, 1, kStepsMost}},
    {"priority",
     "the share of a full link that its traffic gets, relative to 1 (a traffic class of a switch "
     "with weighted round-robin)",
     Real<J>{&J::priority, 0.0, kPriorityMost, true}},
    {"traffic", "background traffic in place of a scenario: messages in a pattern, again and again",
     Own<J>{.read =
                [](JsonObject& job, std::string_view key, J& spec) {
                  if (job.has(key)) spec.traffic = read_traffic(job.object(key));
                },
            .schema = [](const J&) { return schema_of_fields(traffic_fields(), TrafficSpec{}); }}},
};

// A job trains or sends traffic. Only traffic runs on the GPUs of another job, and it needs no
// number of GPUs of its own there.
Json job_schema() {
  Json json = schema_of_fields(job_fields(), JobSpec{});
  const auto requires_field = [](std::string_view key) -> Json {
    return {{"required", Json::array({key})}};
  };
  const Json is_with{{"type", "object"}, {"required", Json::array({"with"})}};
  const Json placed_with{{"required", Json::array({"placement"})},
                         {"properties", {{"placement", is_with}}}};
  const Json placed_alone{{"properties", {{"placement", {{"not", is_with}}}}}};
  const Json sized{{"anyOf", Json::array({requires_field("gpus"), placed_with})}};
  json["oneOf"] = Json::array({requires_field("scenario"), requires_field("traffic")});
  json["dependentRequired"] = {{"set", Json::array({"scenario"})}};
  json["dependentSchemas"] = {{"scenario", placed_alone}, {"traffic", sized}};
  return json;
}

// The schema of the scenario of a job, which may be without a cluster.
Json scenario_definition() {
  Json json = scenario_schema();
  json.erase("$schema");
  json["required"] = Json::array({"model", "training"});
  return json;
}

}  // namespace

std::span<const Field<Jobs>> jobs_fields() { return kFile; }
std::span<const Field<JobSpec>> job_fields() { return kJob; }

Json jobs_schema() {
  Json file = schema_of_fields(jobs_fields(), Jobs{});
  file["properties"]["jobs"] = {{"description", "the jobs, at least one"},
                                {"type", "array"},
                                {"minItems", 1},
                                {"items", job_schema()}};
  file["properties"]["$schema"] = {{"description", "this schema, for editors"}, {"type", "string"}};
  file["required"].push_back("jobs");
  Json json{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
            {"title", "Trainyard jobs"}};
  json.update(file);
  json["$defs"] = {{"scenario", scenario_definition()}};
  return json;
}

}  // namespace trainyard
