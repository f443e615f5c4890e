#include "tools/studies/validate/goodput/published_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "sim/base/error.hpp"
#include "tools/studies/validate/goodput/row_json.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

const Json& facts() {
  static const Json document = study_data("plan_rows");
  return document;
}

[[noreturn]] void refuse(const std::string& reason) {
  throw InputError(Problem{"", "", reason, ""});
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::int64_t integer_of(const std::string& text) { return std::strtoll(text.c_str(), nullptr, 10); }

// The sizes of "24 layers, h 1024, 16 heads, s 2048, V 50272", by their names.
std::map<std::string, std::int64_t> sizes_of(const std::string& text) {
  std::map<std::string, std::int64_t> sizes;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    const std::vector<std::string> words = words_of(part);
    if (words.size() != 2) continue;
    // The number comes before its name ("24 layers") or after it ("h 1024").
    const bool first = integer_of(words[0]) > 0;
    sizes[words[first ? 1 : 0]] = integer_of(words[first ? 0 : 1]);
  }
  for (const char* name : {"layers", "h", "heads", "s", "V"})
    if (sizes[name] <= 0) refuse("a size of its model is not stated");
  return sizes;
}

void read_model(const Json& setup, PublishedPlan& plan) {
  const std::string text = setup.value("model", "");
  const std::size_t colon = std::min(text.find(':'), text.size());
  plan.model = text.substr(0, colon);
  if (!facts().at("models").contains(plan.model)) refuse("its model is not described");
  const auto sizes = sizes_of(text.substr(std::min(colon + 1, text.size())));
  plan.sequence_length = sizes.at("s");
  plan.shape = facts().at("models").at(plan.model).at("shape");
  plan.shape.update({{"name", plan.model},
                     {"layers", sizes.at("layers")},
                     {"hidden", sizes.at("h")},
                     {"heads", sizes.at("heads")},
                     {"vocab", sizes.at("V")},
                     {"max_positions", sizes.at("s")}});
}

// Reads "4 x GH-96 TP4" times `count`: nodes of 4 GPUs that share each layer.
void read_replicas(const std::string& text, std::int64_t count, PlanStage& stage,
                   PublishedPlan& plan) {
  const std::vector<std::string> words = words_of(text);
  if (words.size() != 4 || words[1] != "x" || !words[3].starts_with("TP") || count < 1)
    refuse("the GPUs of a stage are not stated");
  const std::int64_t gpus = integer_of(words[0]);
  const std::int64_t tensor = integer_of(words[3].substr(2));
  if (!facts().at("nodes").contains(words[2])) refuse("its GPUs are not described");
  if (gpus != tensor || gpus < 1) refuse("a replica of a stage is not one node");
  if (plan.tensor != 0 && plan.tensor != tensor) refuse("its stages differ in tensor parallelism");
  plan.tensor = tensor;
  stage.replicas.insert(stage.replicas.end(), static_cast<std::size_t>(count), words[2]);
}

void read_stages(const Json& setup, PublishedPlan& plan) {
  const Json stages = setup.value("stages", Json::array());
  for (const Json& entry : stages) {
    PlanStage stage{.layers = entry.value("layers", std::int64_t{0}), .replicas = {}};
    const Json replicas = entry.value("replicas", Json::object());
    for (const auto& [text, count] : replicas.items())
      read_replicas(text, count.get<std::int64_t>(), stage, plan);
    plan.stages.push_back(std::move(stage));
  }
  if (plan.stages.empty()) refuse("its stages are not stated");
  --plan.stages.front().layers;  // the embedding
  --plan.stages.back().layers;   // the head
  std::int64_t layers = 0;
  for (const PlanStage& stage : plan.stages) {
    layers += stage.layers;
    if (stage.replicas.empty() || stage.replicas.size() != plan.stages.front().replicas.size())
      refuse("its stages differ in replicas");
  }
  if (layers != plan.shape.at("layers"))
    refuse("the layers of its stages are not those of its model");
  const auto nodes = number_at(setup, "nodes");
  if (nodes && *nodes != static_cast<double>(plan.stages.size()) * static_cast<double>(plan.data()))
    refuse("its stages do not fill its nodes");
}

// A node of a kind with the site's parts, under the choices, and with as many GPUs as a replica of
// a stage uses. A node of 8 GPUs may give only 2, which then have no more than 2 NICs.
Json node_of(const PublishedPlan& plan, const std::string& kind, const std::vector<Json>& choices) {
  Json node = facts().at("nodes").at(kind);
  node.merge_patch(facts().at("sites").at(plan.site).value("node", Json::object()));
  for (const Json& choice : choices) node.merge_patch(choice.value("node", Json::object()));
  node["gpus"] = plan.tensor;
  Json& of_cpu = node["cpu"]["gpus_per_cpu"];
  of_cpu = std::min(of_cpu.get<std::int64_t>(), plan.tensor);
  Json& nics = node["nic"]["count"];
  nics = std::min(nics.get<std::int64_t>(), plan.tensor);
  return node;
}

// The nodes stage by stage, which is the order of the ranks. The kind of the first node is the
// usual one; nodes of other kinds are listed under "others" by their numbers.
Json cluster_of(const PublishedPlan& plan, const std::vector<Json>& choices) {
  std::map<std::string, std::vector<std::size_t>> by_kind;
  std::size_t nodes = 0;
  for (const PlanStage& stage : plan.stages)
    for (const std::string& kind : stage.replicas) by_kind[kind].push_back(nodes++);
  const std::string& usual = plan.stages.front().replicas.front();
  Json cluster{{"node", node_of(plan, usual, choices)}, {"nodes", nodes}};
  for (const auto& [kind, places] : by_kind)
    if (kind != usual)
      cluster["others"].push_back({{"nodes", places}, {"node", node_of(plan, kind, choices)}});
  return cluster;
}

}  // namespace

PublishedPlan read_plan(const Json& setup) {
  PublishedPlan plan;
  plan.site = setup.value("site", "");
  if (!facts().at("sites").contains(plan.site)) refuse("its site is not described");
  read_model(setup, plan);
  read_stages(setup, plan);
  plan.micro_batch = setup.value("micro_batch", std::int64_t{0});
  plan.batch = setup.value("batch", std::int64_t{0});
  if (plan.micro_batch < 1 || plan.batch < 1) refuse("its batch is not stated");
  return plan;
}

// An entry or a choice without a model or a site is for all of them. The data file must have the
// choice that is supposed for each site.
std::vector<PlanUnknown> plan_unknowns(const PublishedPlan& plan) {
  std::vector<PlanUnknown> unknowns;
  for (const Json& entry : facts().at("unstated")) {
    if (entry.value("model", plan.model) != plan.model) continue;
    if (entry.value("site", plan.site) != plan.site) continue;
    PlanUnknown unknown{.what = entry.at("what").get<std::string>(),
                        .because = entry.at("because").get<std::string>(),
                        .choices = {}};
    for (const Json& choice : entry.at("choices"))
      if (choice.value("site", plan.site) == plan.site) unknown.choices.push_back(choice);
    while (unknown.name(unknown.supposed) != entry.at("supposed").get_ref<const std::string&>())
      ++unknown.supposed;
    unknowns.push_back(std::move(unknown));
  }
  return unknowns;
}

std::string plan_gpu(const PublishedPlan& plan) {
  return facts().at("sites").at(plan.site).at("gpu").get<std::string>();
}

Json plan_document(const PublishedPlan& plan, const std::vector<PlanUnknown>& unknowns,
                   const std::vector<std::size_t>& choices) {
  std::vector<Json> chosen;
  for (std::size_t i = 0; i < unknowns.size(); ++i)
    chosen.push_back(unknowns[i].choices[choices[i]]);
  Json layers = Json::array();
  for (const PlanStage& stage : plan.stages) layers.push_back(stage.layers);
  Json document = facts().at("scenario");
  document["model"] = plan.shape;
  document["cluster"] = cluster_of(plan, chosen);
  document["parallelism"].update({{"tensor", plan.tensor},
                                  {"pipeline", plan.stages.size()},
                                  {"data", plan.data()},
                                  {"layers_per_stage", layers}});
  document["training"].update({{"sequence_length", plan.sequence_length},
                               {"micro_batch_size", plan.micro_batch},
                               {"global_batch_size", plan.batch}});
  // Later patches win: the plan over the common scenario, the site over the plan, choices over all.
  document.merge_patch(facts().at("sites").at(plan.site).at("scenario"));
  for (const Json& choice : chosen) document.merge_patch(choice.value("scenario", Json::object()));
  return document;
}

std::vector<std::string> plan_reasons(const PublishedPlan& plan) {
  auto reasons = facts().at("because").get<std::vector<std::string>>();
  for (const Json& reason : facts().at("sites").at(plan.site).at("because"))
    reasons.push_back(reason.get<std::string>());
  reasons.push_back(facts().at("models").at(plan.model).at("because").get<std::string>());
  return reasons;
}

}  // namespace trainyard
