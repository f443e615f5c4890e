// The JSON schema for editors: it is the file in the repository, and agrees with the reader on the
// structure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "scenarios/reader/tables.hpp"
#include "sim/base/json_parse.hpp"
#include "tests/scenarios/sample.hpp"
#include "tests/scenarios/schema_cases.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

const std::filesystem::path kSchemaFile =
    std::filesystem::path(TRAINYARD_SOURCE_DIRECTORY) / "scenarios" / "scenario.schema.json";

// Is the schema the file in the repository?
TEST(Schema, IsTheOneInTheRepository) {
  const std::string text = scenario_schema().dump(2) + "\n";
  if (std::getenv("TRAINYARD_BLESS") != nullptr) write_file(kSchemaFile, text);
  EXPECT_TRUE(read_file(kSchemaFile) == text)
      << "run the tests once with TRAINYARD_BLESS=1 and review the difference";
}

// Does the schema contain every field of the tables?
TEST(Schema, KnowsEveryFieldOfTheTables) {
  const Json schema = scenario_schema();
  for (const Field<Parallelism>& row : parallelism_fields()) {
    EXPECT_TRUE(schema["properties"]["parallelism"]["properties"].contains(row.key)) << row.key;
  }
  const Json& schedule = schema["properties"]["parallelism"]["properties"]["schedule"];
  const Json& schedules = schedule["anyOf"][0]["enum"];
  EXPECT_THAT(schedules.get<std::vector<std::string>>(), testing::Contains("interleaved_1f1b"));
}

// The least block, with a checkpoint of one more field.
Json reliability(const char* field, const Json& value) {
  Json block = parse_unchecked_json(R"({ "checkpoint": { "stall": "5 s" } })");
  block["checkpoint"][field] = value;
  return block;
}

// Changes of the sample.
std::vector<SchemaCase> cases() {
  return {
      {"/seed", 3, true},
      {"/seed", -1, false},
      {"/seed", 1.0, true},
      {"/seed", 1.5, false},
      {"/unknown", 1, false},
      {"/$schema", "x", true},
      {"/description", 5, false},
      {"/assumptions", Json::array({"one"}), true},
      {"/assumptions", Json::array({1}), false},
      {"/model", nullptr, false},
      {"/model", 5, false},
      {"/model",
       {{"layers", 96},
        {"hidden", 1024},
        {"heads", 8},
        {"ffn", 4096},
        {"vocab", 8192},
        {"max_positions", 4096}},
       true},
      {"/model", {{"layers", 96}}, false},
      {"/model",
       {{"layers", 96},
        {"hidden", 1024},
        {"heads", 8},
        {"ffn", 4096},
        {"vocab", 8192},
        {"max_positions", 4096},
        {"x", 1}},
       false},
      {"/model",
       {{"layers", 96},
        {"hidden", 1024},
        {"heads", 8},
        {"ffn", 4096},
        {"vocab", 8192},
        {"max_positions", 4096},
        {"window", 512},
        {"full_attention_every", 200'000}},
       false},
      {"/cluster", nullptr, false},
      {"/cluster", "dgx_h100", false},
      {"/cluster/nodes", 0, false},
      {"/cluster/nodes", "8", false},
      {"/cluster/fabric", {{"kind", "single_switch"}}, true},
      {"/cluster/fabric", {{"kind", "fat_tre"}}, false},
      {"/cluster/fabric", {{"kind", "single_switch"}, {"x", 1}}, false},
      {"/parallelism/tensor", "8", false},
      {"/parallelism/tensor", 0, false},
      {"/parallelism/tensr", 8, false},
      {"/parallelism/context", 0, false},
      {"/parallelism/context_exchange", "a2a", true},
      {"/parallelism/context_exchange", "ring", false},
      {"/parallelism/zero_stage", 1, true},
      {"/parallelism/zero_stage", 4, false},
      {"/parallelism/schedule", "gpipe", true},
      {"/parallelism/schedule", "2f2b", false},
      {"/parallelism/sequence_parallel", "yes", false},
      {"/parallelism/first_stage_layers", 24, true},
      {"/parallelism/first_stage_layers", -1, false},
      {"/training", nullptr, false},
      {"/training/sequence_length", nullptr, false},
      {"/training/global_batch_size", nullptr, false},
      {"/training/micro_batch_size", 2, true},
      {"/training/recompute", "full", true},
      {"/training/recompute", "some", false},
      {"/training/recompute_modules", {"mlp", "layernorm"}, true},
      {"/training/recompute_modules", {"mlp", "norm"}, false},
      {"/training/lora_targets", {"query"}, true},
      {"/training/lora_targets", {"q_proj"}, false},
      {"/training/precision", "fp64", false},
      {"/collectives", {{"data", {{"all_reduce", "ring"}}}}, true},
      {"/collectives", {{"data", {{"all_reduce", "rings"}}}}, false},
      {"/collectives", {{"data", {{"all_gather", "nccl"}}}}, true},
      {"/collectives", {{"nccl", {{"algo", "^NVLS"}, {"max_channels", 64}}}}, true},
      {"/collectives", {{"nccl", {{"max_channels", 65}}}}, false},
      {"/collectives", {{"nccl", {{"channels", 8}}}}, false},
      {"/collectives", {{"data", {{"sum", "ring"}}}}, false},
      {"/collectives", {{"dat", {{"all_reduce", "ring"}}}}, false},
      {"/engine", "ideal", true},
      {"/engine", "real", false},
      {"/collective_model", "stepwise", true},
      {"/flops_convention", "half", false},
      {"/published", {{"source", "x"}, {"step_time", "13.75 s"}}, true},
      {"/published", {{"source", "x"}, {"step_time", 13.75}}, false},
      {"/published", {{"source", "x"}, {"step_time", "13.75 GB"}}, false},
      {"/published", {{"source", "x"}, {"hardware_flops_per_gpu", "148 TFLOP/s"}}, true},
      {"/published", {{"source", "x"}, {"mfu", 51.4}}, false},
      {"/published", {{"step_time", "13.75 s"}}, false},
      {"/reliability", reliability("write_rate", "40 GB/s"), true},
      {"/reliability", reliability("write_rate", 40e9), false},
      {"/reliability", reliability("write_rate", "40 GB"), false},
      {"/reliability", reliability("bytes", "14 TB"), true},
      {"/reliability", reliability("bytes", "14 TB/s"), false},
      {"/reliability", reliability("interval", "optimal"), true},
      {"/reliability", reliability("interval", "10 min"), true},
      {"/reliability", reliability("interval", "often"), false},
  };
}

// Does the reader judge the cases as expected?
TEST(Schema, TheReaderJudgesTheCasesAsExpected) {
  for (const SchemaCase& change : cases()) {
    const std::string text = complaints(changed(sample(), change));
    EXPECT_EQ(text.empty(), change.good) << change.pointer << " = " << change.value << "\n" << text;
  }
}

// Does a validator agree with the reader? Debian's python3-jsonschema judges the same cases by the
// schema alone.
TEST(Schema, AValidatorAgreesWithTheReader) {
  Json corpus = Json::array();
  for (const SchemaCase& change : cases()) corpus.push_back(changed(sample(), change));
  const std::optional<std::vector<bool>> judged = verdicts(scenario_schema(), corpus);
  if (!judged) GTEST_SKIP() << kNoValidator;
  const std::vector<SchemaCase> all = cases();
  ASSERT_EQ(judged->size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ((*judged)[i], all[i].good) << all[i].pointer << " = " << all[i].value;
}

}  // namespace
}  // namespace trainyard
