// The JSON Schema of a file of jobs: it is the file in the repository, and agrees with the reader
// on the structure.
#include <gtest/gtest.h>

#include <cstdlib>

#include "sim/base/json_parse.hpp"
#include "tests/scenarios/jobs/shared_uplink.hpp"
#include "tests/scenarios/schema_cases.hpp"
#include "tests/scenarios/shipped.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

const std::filesystem::path kSchemaFile =
    std::filesystem::path(TRAINYARD_SOURCE_DIRECTORY) / "scenarios" / "jobs.schema.json";

// Is the schema the file in the repository?
TEST(JobsSchema, IsTheOneInTheRepository) {
  const std::string text = jobs_schema().dump(2) + "\n";
  if (std::getenv("TRAINYARD_BLESS") != nullptr) write_file(kSchemaFile, text);
  EXPECT_TRUE(read_file(kSchemaFile) == text)
      << "run the tests once with TRAINYARD_BLESS=1 and review the difference";
}

// Two jobs that train, and traffic on the GPUs of the first.
Json three_jobs() {
  Json document = shared_uplink();
  document["jobs"].push_back(parse_unchecked_json(R"({
    "name": "reads", "placement": { "with": "a" }, "priority": 0.5,
    "traffic": { "pattern": "pairs", "bytes": "1 MB", "every": "1 s" }
  })"));
  return document;
}

std::vector<SchemaCase> cases_of_the_file() {
  return {{"/description", 5, false},
          {"/source", "x", true},
          {"/assumptions", Json::array({"one"}), true},
          {"/assumptions", Json::array({1}), false},
          {"/$schema", "x", true},
          {"/unknown", 1, false},
          {"/cluster", nullptr, false},
          {"/cluster", "dgx_h100", false},
          {"/cluster/nodes", 0, false},
          {"/cluster/fabric", {{"kind", "fat_tre"}}, false},
          {"/engine", "ideal", true},
          {"/engine", "real", false},
          {"/jobs", nullptr, false},
          {"/jobs", Json::array(), false},
          {"/jobs", "a", false},
          {"/jobs/0", "a", false}};
}

std::vector<SchemaCase> cases_of_a_job() {
  return {{"/jobs/1/name", nullptr, true},
          {"/jobs/0/name", 7, false},
          {"/jobs/0/nam", "a", false},
          {"/jobs/0/scenario", nullptr, false},
          {"/jobs/0/scenario", 5, false},
          {"/jobs/0/scenario/seed", 3, true},
          {"/jobs/0/scenario/training", nullptr, false},
          {"/jobs/0/scenario/training/recompute", "some", false},
          {"/jobs/0/set", {{"training.global_batch_size", 4}}, true},
          {"/jobs/0/set", 4, false},
          {"/jobs/0/gpus", 2.0, true},
          {"/jobs/0/gpus", 0, false},
          {"/jobs/0/gpus", 2.5, false},
          {"/jobs/0/gpus", "2", false},
          {"/jobs/0/start", "2 ms", true},
          {"/jobs/0/start", 2, false},
          {"/jobs/0/start", "2 GB", false},
          {"/jobs/0/start", "-2 s", false},
          {"/jobs/0/steps", 2, true},
          {"/jobs/0/steps", 0, false},
          {"/jobs/0/steps", 10'001, false},
          {"/jobs/0/priority", 16, true},
          {"/jobs/0/priority", 16.5, false},
          {"/jobs/0/priority", 0, false},
          {"/jobs/0/priority", -1, false},
          {"/jobs/0/priority", "1", false}};
}

std::vector<SchemaCase> cases_of_placements() {
  return {{"/jobs/0/placement", nullptr, true},
          {"/jobs/0/placement", "packed", true},
          {"/jobs/0/placement", "spread", true},
          {"/jobs/0/placement", "pakced", false},
          {"/jobs/0/placement", 5, false},
          {"/jobs/0/placement", Json::object(), false},
          {"/jobs/0/placement", {{"fragmented", 3}}, true},
          {"/jobs/0/placement", {{"fragmented", -3}}, false},
          {"/jobs/0/placement", {{"leaves", {1, 0}}}, true},
          {"/jobs/0/placement", {{"leaves", Json::array()}}, false},
          {"/jobs/0/placement", {{"leaves", 1}}, false},
          {"/jobs/0/placement", {{"nodes", {0, 0}}}, false},
          {"/jobs/0/placement", {{"nodes", {-1, 0}}}, false},
          {"/jobs/0/placement", {{"node", {0, 2}}}, false},
          {"/jobs/0/placement", {{"gpus", {0, 2}}}, true},
          {"/jobs/0/placement", {{"gpus", {0, 2}}, {"nodes", {0, 2}}}, false},
          {"/jobs/1/placement", {{"with", "a"}}, false},
          {"/jobs/2/placement", {{"with", 0}}, false}};
}

std::vector<SchemaCase> cases_of_traffic() {
  return {{"/jobs/2/traffic", nullptr, false},
          {"/jobs/2/traffic", "ring", false},
          {"/jobs/2/traffic/rate", "1 GB/s", false},
          {"/jobs/2/traffic/pattern", nullptr, false},
          {"/jobs/2/traffic/pattern", "one_to_all", true},
          {"/jobs/2/traffic/pattern", "rings", false},
          {"/jobs/2/traffic/bytes", nullptr, false},
          {"/jobs/2/traffic/bytes", "1.5 GiB", true},
          {"/jobs/2/traffic/bytes", 1'000'000, false},
          {"/jobs/2/traffic/bytes", "1 s", false},
          {"/jobs/2/traffic/every", nullptr, false},
          {"/jobs/2/traffic/every", "20 ms", true},
          {"/jobs/2/traffic/every", "1 GB", false},
          {"/jobs/2/traffic",
           {{"pattern", "all_to_one"}, {"bytes", "1 MB"}, {"every", "1 s"}, {"servers", 2}},
           true},
          {"/jobs/2/traffic/servers", 0, false},
          {"/jobs/2/gpus", 2, true},
          {"/jobs/2/placement", nullptr, false},
          {"/jobs/2/placement", {{"nodes", {0}}}, false},
          {"/jobs/2/set", {{"training.global_batch_size", 4}}, false},
          {"/jobs/2/scenario", tiny_job(), false}};
}

std::vector<SchemaCase> cases() {
  std::vector<SchemaCase> all;
  for (const auto& part :
       {cases_of_the_file(), cases_of_a_job(), cases_of_placements(), cases_of_traffic()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Faults that no schema can tell, because they lie between fields or in other files.
std::vector<SchemaCase> faults_beyond_the_schema() {
  return {{"/jobs/0/gpus", 5, true},  // the cluster has four
          {"/jobs/0/gpus", nullptr, true},
          {"/jobs/0/scenario", "nowhere.json", true},
          {"/jobs/1/name", "a", true},
          {"/jobs/2/placement/with", "c", true},
          {"/jobs/2/traffic/every", "0 s", true},
          {"/jobs/2/traffic/bytes", "0 B", true},
          {"/jobs/2/traffic/servers", 2, true}};  // pairs have none
}

// Does the reader take the document?
bool is_read(const Json& document) {
  try {
    (void)jobs_of(document);
    return true;
  } catch (const InputError& error) {
    EXPECT_FALSE(error.problems().empty());
    return false;
  }
}

// Does the reader judge the cases as expected, and refuse what no schema can tell?
TEST(JobsSchema, TheReaderJudgesTheCasesAsExpected) {
  ASSERT_TRUE(is_read(three_jobs()));
  for (const SchemaCase& change : cases())
    EXPECT_EQ(is_read(changed(three_jobs(), change)), change.good)
        << change.pointer << " = " << change.value;
  for (const SchemaCase& change : faults_beyond_the_schema())
    EXPECT_FALSE(is_read(changed(three_jobs(), change))) << change.pointer << " = " << change.value;
}

// Does a validator agree with the reader, by the schema alone?
TEST(JobsSchema, AValidatorAgreesWithTheReader) {
  std::vector<SchemaCase> all = cases();
  const std::vector<SchemaCase> beyond = faults_beyond_the_schema();
  all.insert(all.end(), beyond.begin(), beyond.end());
  Json corpus = Json::array({three_jobs()});
  for (const SchemaCase& change : all) corpus.push_back(changed(three_jobs(), change));
  const std::optional<std::vector<bool>> judged = verdicts(jobs_schema(), corpus);
  if (!judged) GTEST_SKIP() << kNoValidator;
  ASSERT_EQ(judged->size(), all.size() + 1);
  EXPECT_TRUE(judged->front());
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ((*judged)[i + 1], all[i].good) << all[i].pointer << " = " << all[i].value;
}

// Are the shipped files of jobs valid, and do they name the schema for editors?
TEST(JobsSchema, ShippedFilesAreValidAndNameTheSchema) {
  Json corpus = Json::array();
  for (const std::string& file : shipped_jobs()) {
    corpus.push_back(parse_unchecked_json(read_file(file)));
    ASSERT_TRUE(corpus.back().contains("$schema")) << file;
    const auto named =
        std::filesystem::path(file).parent_path() / corpus.back()["$schema"].get<std::string>();
    EXPECT_TRUE(std::filesystem::equivalent(named, kSchemaFile)) << file;
  }
  ASSERT_GE(corpus.size(), 2U);
  const std::optional<std::vector<bool>> judged = verdicts(jobs_schema(), corpus);
  if (!judged) GTEST_SKIP() << kNoValidator;
  EXPECT_EQ(*judged, std::vector<bool>(corpus.size(), true));
}

}  // namespace
}  // namespace trainyard
