// A resolved scenario contains every field, and reading it changes nothing.
#include <gtest/gtest.h>

#include "models/architecture/architecture.hpp"
#include "scenarios/reader/tables.hpp"
#include "tests/scenarios/sample.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

template <class Owner>
void expect_all_written(std::span<const Field<Owner>> rows, const Json& section) {
  std::size_t fields = 0;
  for (const Field<Owner>& row : rows) {
    if (std::holds_alternative<OptionalWhole<Owner>>(row.kind)) continue;
    if (std::holds_alternative<OptionalNumber<Owner>>(row.kind)) continue;
    // without names there is nothing to write
    if (std::holds_alternative<NamedWholes<Owner>>(row.kind)) continue;
    EXPECT_TRUE(section.contains(row.key)) << row.key;
    ++fields;
  }
  EXPECT_GT(fields, 0U);
}

// Is every default written?
TEST(Resolved, WritesEveryDefault) {
  const Json json = resolved(load(sample()));
  expect_all_written(heading_fields(), json);
  expect_all_written(run_fields(), json);
  expect_all_written(architecture_fields(), json["model"]);
  expect_all_written(parallelism_fields(), json["parallelism"]);
  expect_all_written(training_fields(), json["training"]);
  EXPECT_EQ(json["collectives"]["data"]["all_reduce"], "nccl");
  EXPECT_EQ(json["collectives"]["nccl"]["version"], nccl::Options{}.version);
  EXPECT_EQ(json["parallelism"]["rank_order"], "tp-cp-ep-dp-pp");
  EXPECT_FALSE(json.contains("published"));
}

// Does reading a resolved scenario give the same scenario?
TEST(Resolved, ReadingItAgainGivesTheSame) {
  Json document = sample();
  document["source"] = "somewhere";
  document["assumptions"] = {"one"};
  document["cluster"]["fabric"]["hop_latency"] = "333 ns";
  document["collectives"] = {{"data", {{"all_reduce", "hierarchical"}}}};
  document["parallelism"]["first_stage_layers"] = 24;
  document["training"]["attention"] = "unfused";
  document["published"] = {
      {"source", "x"}, {"step_time", "13.7501 s"}, {"mfu", 0.1}, {"note", "n"}};
  document["seed"] = 123456789;
  const Json once = resolved(load(document));
  const Json twice = resolved(load(once));
  EXPECT_EQ(once.dump(2), twice.dump(2));
  EXPECT_EQ(twice["published"]["step_time"], "13.7501 s");
  EXPECT_EQ(twice["parallelism"]["first_stage_layers"], 24);
}

// Does a resolved scenario keep which layers are recomputed?
TEST(Resolved, KeepsWhichLayersAreComputedAgain) {
  Json document = sample();
  document["training"]["recompute"] = "full";
  document["training"]["recompute_method"] = "fraction";
  document["training"]["recompute_fraction"] = 0.375;
  EXPECT_EQ(load(resolved(load(document))).plan.training.recompute_fraction, 0.375);
  document["training"].erase("recompute_fraction");
  document["training"]["recompute_method"] = "layers";
  document["training"]["recompute_layers"] = {3, 0};
  EXPECT_EQ(load(resolved(load(document))).plan.training.recompute_layers,
            (std::vector<std::int64_t>{3, 0}));
}

}  // namespace
}  // namespace trainyard
