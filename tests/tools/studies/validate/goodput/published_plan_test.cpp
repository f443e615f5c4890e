// Published training plans become scenarios: the layers, nodes and ranks of a row, and what is
// supposed of the rest.
#include "tools/studies/validate/goodput/published_plan.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "sim/base/error.hpp"
#include "sim/base/json_parse.hpp"
#include "tests/tools/studies/goodput/fixtures.hpp"
#include "tools/studies/validate/goodput/plan_rows.hpp"
#include "tools/studies/validate/goodput/published.hpp"
#include "tools/studies/validate/goodput/row_json.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

// Two stages of two replicas on three kinds of nodes.
Json mixed_setup() {
  return parse_unchecked_json(R"({
    "model": "OPT 350M: 24 layers, h 1024, 16 heads, s 2048, V 50272", "nodes": 4,
    "stages": [{"layers": 12, "replicas": {"8 x RTX-3090 TP8": 1, "8 x RTX-2080 TP8": 1}},
               {"layers": 14, "replicas": {"8 x Titan-RTX TP8": 1, "8 x RTX-2080 TP8": 1}}],
    "micro_batch": 2, "batch": 256, "site": "mixed RTX nodes"})");
}

Json grace_setup() {
  return parse_unchecked_json(R"({
    "model": "GPT-Neo 2.7B: 32 layers, h 2560, 32 heads, s 2048, V 128256", "nodes": 8,
    "stages": [{"layers": 16, "replicas": {"4 x GH-96 TP4": 4}},
               {"layers": 18, "replicas": {"4 x GH-96 TP4": 4}}],
    "micro_batch": 4, "batch": 1024, "site": "4 x GH200 a node, Alps"})");
}

std::vector<std::size_t> supposed_of(const std::vector<PlanUnknown>& unknowns) {
  std::vector<std::size_t> choices;
  for (const PlanUnknown& unknown : unknowns) choices.push_back(unknown.supposed);
  return choices;
}

Json supposed_document(const Json& setup) {
  const PublishedPlan plan = read_plan(setup);
  const std::vector<PlanUnknown> unknowns = plan_unknowns(plan);
  return plan_document(plan, unknowns, supposed_of(unknowns));
}

// The embedding is one of the 12 layers of the first stage, the head one of the 14 of the last.
// Ranks are counted stage by stage, so nodes 1 and 3 are the RTX 2080.
TEST(PublishedPlan, BecomesAScenario) {
  const Json document = supposed_document(mixed_setup());
  EXPECT_EQ(document["parallelism"]["tensor"], 8);
  EXPECT_EQ(document["parallelism"]["pipeline"], 2);
  EXPECT_EQ(document["parallelism"]["data"], 2);
  EXPECT_EQ(document["parallelism"]["layers_per_stage"], Json({11, 13}));
  EXPECT_EQ(document["training"]["sequence_length"], 2048);
  EXPECT_EQ(document["training"]["micro_batch_size"], 2);
  EXPECT_EQ(document["training"]["global_batch_size"], 256);
  EXPECT_EQ(document["model"]["vocab"], 50272);
  EXPECT_EQ(document["model"]["layers"], 24);
  const Json& cluster = document["cluster"];
  EXPECT_EQ(cluster["nodes"], 4);
  EXPECT_EQ(cluster["node"]["gpu"], "rtx_3090");
  ASSERT_EQ(cluster["others"].size(), 2U);
  EXPECT_EQ(cluster["others"][0]["node"]["gpu"], "rtx_2080");
  EXPECT_EQ(cluster["others"][0]["nodes"], Json({1, 3}));
  EXPECT_EQ(cluster["others"][1]["node"]["gpu"], "titan_rtx");
  EXPECT_EQ(cluster["others"][1]["nodes"], Json({2}));
}

// A plan that uses two of the eight GPUs of a server has nodes of two, behind one CPU.
TEST(PublishedPlan, UsesAPartOfANode) {
  Json setup = mixed_setup();
  setup["nodes"] = 2;
  setup["stages"] = parse_unchecked_json(
      R"([{"layers": 26, "replicas": {"2 x Titan-RTX TP2": 1, "2 x RTX-3090 TP2": 1}}])");
  const Json document = supposed_document(setup);
  EXPECT_EQ(document["parallelism"]["layers_per_stage"], Json({24}));
  EXPECT_EQ(document["cluster"]["node"]["gpus"], 2);
  EXPECT_EQ(document["cluster"]["node"]["cpu"]["gpus_per_cpu"], 2);
  EXPECT_EQ(document["cluster"]["node"]["nic"]["count"], 1);
}

// Unknowns are those of the plan's model and site, and a choice changes what it names and no more.
TEST(PublishedPlan, HasTheUnknownsOfItsModelAndSite) {
  const auto names = [](const Json& setup) {
    std::vector<std::string> found;
    for (const PlanUnknown& unknown : plan_unknowns(read_plan(setup)))
      found.push_back(unknown.what);
    return found;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(grace_setup()), (Names{"precision", "host", "head"}));
  EXPECT_EQ(names(mixed_setup()), (Names{"precision", "host", "network", "PCIe"}));
  const PublishedPlan plan = read_plan(mixed_setup());
  const std::vector<PlanUnknown> unknowns = plan_unknowns(plan);
  EXPECT_EQ(unknowns[0].choices.size(), 2U);  // no TF32 on Turing
  std::vector<std::size_t> choices = supposed_of(unknowns);
  const Json before = plan_document(plan, unknowns, choices);
  EXPECT_EQ(before["cluster"]["node"]["nic"]["nominal"], "1.25 GB/s");
  choices[2] = 2;
  Json after = plan_document(plan, unknowns, choices);
  for (Json* node : {&after["cluster"]["node"], &after["cluster"]["others"][0]["node"],
                     &after["cluster"]["others"][1]["node"]}) {
    EXPECT_EQ((*node)["nic"]["nominal"], "0.125 GB/s");
    (*node)["nic"] = before["cluster"]["node"]["nic"];
  }
  EXPECT_EQ(after, before);
}

std::string refusal_of(const std::function<void(Json&)>& change) {
  Json setup = mixed_setup();
  change(setup);
  try {
    static_cast<void>(read_plan(setup));
    return "";
  } catch (const InputError& error) {
    return error.problems().front().problem;
  }
}

// Is each plan that is not understood refused with its reason?
TEST(PublishedPlan, IsRefusedWithAReason) {
  EXPECT_EQ(refusal_of([](Json&) {}), "");
  EXPECT_EQ(refusal_of([](Json& s) { s["site"] = "a garage"; }), "its site is not described");
  EXPECT_EQ(refusal_of([](Json& s) { s.erase("model"); }), "its model is not described");
  EXPECT_EQ(refusal_of([](Json& s) { s["model"] = "OPT 350M: 24 layers, h 1024"; }),
            "a size of its model is not stated");
  EXPECT_EQ(refusal_of([](Json& s) { s.erase("stages"); }), "its stages are not stated");
  EXPECT_EQ(refusal_of([](Json& s) { s["stages"][0]["layers"] = 13; }),
            "the layers of its stages are not those of its model");
  EXPECT_EQ(refusal_of([](Json& s) { s["stages"][1]["replicas"].erase("8 x RTX-2080 TP8"); }),
            "its stages differ in replicas");
  EXPECT_EQ(refusal_of([](Json& s) {
              s["stages"][1]["replicas"] = {{"4 x RTX-2080 TP4", 2}};
            }),
            "its stages differ in tensor parallelism");
  EXPECT_EQ(refusal_of([](Json& s) {
              s["stages"][1]["replicas"] = {{"8 x RTX-2080 TP4", 2}};
            }),
            "a replica of a stage is not one node");
  EXPECT_EQ(refusal_of([](Json& s) {
              s["stages"][1]["replicas"] = {{"8 x A-1 TP8", 2}};
            }),
            "its GPUs are not described");
  EXPECT_EQ(refusal_of([](Json& s) {
              s["stages"][1]["replicas"] = {{"RTX-2080", 2}};
            }),
            "the GPUs of a stage are not stated");
  EXPECT_EQ(refusal_of([](Json& s) { s["nodes"] = 5; }), "its stages do not fill its nodes");
  EXPECT_EQ(refusal_of([](Json& s) { s["batch"] = 0; }), "its batch is not stated");
}

// A row without a plan is left out, and one that cannot be simulated says why.
TEST(PlanRows, WithoutAPlanAreNotPredicted) {
  std::vector<PlanRow> rows;
  const Json claims{{"setup", {{"gpus", 128}}}, {"measured", {{"planning_s", "< 1"}}}};
  EXPECT_EQ(predict_plan(claims, rows), "it gives no plan, or no step time");
  Json uneven{{"setup", mixed_setup()}, {"measured", {{"step_s", 66.0}}}};
  uneven["setup"]["batch"] = 255;
  EXPECT_NE(predict_plan(uneven, rows), "");
  EXPECT_TRUE(rows.empty());
  EXPECT_EQ(plan_rows_text(rows), "");
}

// Every supposition has a reason, and what was added after the first prediction says what was seen.
TEST(PlanRows, SupposeNothingWithoutAReason) {
  const Json facts = study_data("plan_rows");
  std::size_t choices = 0;
  for (const Json& unknown : facts["unstated"]) {
    EXPECT_GT(unknown["because"].get<std::string>().size(), 20U);
    choices += unknown["choices"].size();
  }
  EXPECT_EQ(choices, 12U);
  for (const auto& part : {"models", "sites"})
    for (const auto& [name, entry] : facts[part].items()) EXPECT_FALSE(entry["because"].empty());
  for (const auto& [name, node] : facts["nodes"].items()) EXPECT_TRUE(node.contains("source"));
}

const GoodputRows& plans_of_tree() {
  static const GoodputRows rows =
      validate_goodput(kTree / "tests/measured/goodput.json",
                       [](const std::string& id) { return id.starts_with("sailor"); });
  return rows;
}

// The errors as they are: the suppositions that were fixed beforehand have fp16, and the memory
// says fp32. The range has all that was fixed beforehand, and no choice that was added afterwards.
TEST(PlanRows, HaveTheseErrors) {
  const std::vector<PlanRow>& rows = plans_of_tree().plans;
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_TRUE(plans_of_tree().left_out.empty());
  for (const PlanRow& row : rows) {
    EXPECT_NEAR(row.step_s.error(), row.step_s.predicted / row.step_s.published - 1.0, 1e-12);
    EXPECT_LT(row.step_s.error(), -0.25) << row.id;
    EXPECT_LE(row.fastest_s, row.step_s.predicted);
    EXPECT_GT(row.slowest_s, row.step_s.predicted);
    for (const ChangedPlan& other : row.changed) {
      if (!other.evidence.empty()) continue;
      EXPECT_LE(row.fastest_s, other.step_s) << other.change;
      EXPECT_GE(row.slowest_s, other.step_s) << other.change;
    }
  }
  EXPECT_EQ(rows[0].reduction_s.published, 0.0169);
  EXPECT_GT(rows[0].reduction_s.predicted, 0.0);
}

// Does fp32 bring the memory of GPT-Neo near that of the run, where fp16 is far from it?
TEST(PlanRows, TellThePrecisionByTheirMemory) {
  const PlanRow& row = plans_of_tree().plans[1];
  ASSERT_EQ(row.id, "sailor-gh200-neo-n16-d4");
  EXPECT_LT(row.peak_bytes.error(), -0.35);
  std::size_t wide = 0;
  for (const ChangedPlan& other : row.changed) {
    if (!other.change.starts_with("precision: fp32")) continue;
    EXPECT_NEAR(other.peak_bytes / row.peak_bytes.published, 1.0, 0.1) << other.change;
    ++wide;
  }
  EXPECT_EQ(wide, 2U);
}

// Text and JSON say that none calibrates, and give the scores by GPU.
TEST(PlanRows, AreReportedByGpu) {
  const std::string text = plan_rows_text(plans_of_tree().plans);
  EXPECT_NE(text.find("none of which calibrates"), std::string::npos);
  EXPECT_NE(text.find("GH200 as supposed: 2 rows, MAPE"), std::string::npos);
  EXPECT_NE(text.find("mixed RTX as supposed: 1 rows, MAPE"), std::string::npos);
  const Json json = plan_rows_json(plans_of_tree().plans);
  EXPECT_EQ(json["rows"].size(), 3U);
  EXPECT_EQ(json["by_gpu"]["GH200"]["rows"], 2);
  EXPECT_EQ(json["rows"][2]["scenario"]["cluster"]["nodes"], 4);
  const double errors =
      json["rows"][0]["error"].get<double>() + json["rows"][1]["error"].get<double>();
  EXPECT_NEAR(json["by_gpu"]["GH200"]["bias"], errors / 2, 1e-12);
  EXPECT_TRUE(json["by_gpu"]["GH200"]["changed"].contains("precision: fp32, TF32 products"));
}

}  // namespace
}  // namespace trainyard
