// A published training plan: which stage of which model runs on which GPUs, and its scenario.
//
//    {"model": "OPT 350M: 24 layers, h 1024, 16 heads, s 2048, V 50272", "nodes": 2,
//     "stages": [{"layers": 12, "replicas": {"2 x RTX-3090 TP2": 1}},
//                {"layers": 14, "replicas": {"2 x Titan-RTX TP2": 1}}],
//     "micro_batch": 2, "batch": 256, "site": "mixed RTX nodes"}
//
// The layers of the first and of the last stage include the embedding and the head, so this plan
// has 11 and 13 transformer layers. Each replica of a stage is one node. What the row leaves out is
// supposed: data/plan_rows.json of the study `validate` has the assumptions and their reasons.
// Some of them have choices (`unstated`), from the fastest to the slowest.
//
//    const PublishedPlan plan = read_plan(row.at("setup"));
//    const std::vector<PlanUnknown> unknowns = plan_unknowns(plan);
//    const auto document = plan_document(plan, unknowns, {0, 1});   // choice 0 of the first, ...
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trainyard {

struct PlanStage {
  std::int64_t layers = 0;            // of the transformer
  std::vector<std::string> replicas;  // the kind of the node of each: "RTX-3090"
};

struct PublishedPlan {
  std::string model;  // "OPT 350M"
  std::string site;   // "mixed RTX nodes"
  nlohmann::ordered_json shape;
  std::int64_t sequence_length = 0;
  std::int64_t tensor = 0;  // ranks of a replica of a stage, which are the GPUs of its node
  std::int64_t micro_batch = 0;
  std::int64_t batch = 0;
  std::vector<PlanStage> stages;

  [[nodiscard]] std::int64_t data() const {
    return static_cast<std::int64_t>(stages.front().replicas.size());
  }
};

// Throws InputError with the reason if a plan is malformed, or if it is not of the form above.
[[nodiscard]] PublishedPlan read_plan(const nlohmann::ordered_json& setup);

// Something that the rows leave out, with its choices. `supposed` is the index of one.
struct PlanUnknown {
  std::string what;  // "precision"
  std::string because;
  std::vector<nlohmann::ordered_json> choices;  // {name, scenario, node, evidence}
  std::size_t supposed = 0;

  [[nodiscard]] std::string name(std::size_t choice) const {
    return choices[choice].at("name").get<std::string>();
  }
  // Why the choice was added after the first prediction; empty if it was fixed before.
  [[nodiscard]] std::string evidence(std::size_t choice) const {
    return choices[choice].value("evidence", "");
  }
};

// The unknowns of a plan, by its model and site.
[[nodiscard]] std::vector<PlanUnknown> plan_unknowns(const PublishedPlan& plan);

// The name of the GPUs of the plan's site: "GH200".
[[nodiscard]] std::string plan_gpu(const PublishedPlan& plan);

// The scenario under one choice of each unknown.
[[nodiscard]] nlohmann::ordered_json plan_document(const PublishedPlan& plan,
                                                   const std::vector<PlanUnknown>& unknowns,
                                                   const std::vector<std::size_t>& choices);

// The reasons of what is supposed of the plan, without those of its unknowns.
[[nodiscard]] std::vector<std::string> plan_reasons(const PublishedPlan& plan);

}  // namespace trainyard
