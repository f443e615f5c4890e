// Do many runs end up in one journal, once each, whatever interrupts them?
#include "scenarios/batch/batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "scenarios/batch/flatten.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

const std::string kScenario = TRAINYARD_SOURCE_DIRECTORY "/scenarios/first/two_gpus.json";

std::filesystem::path fresh_file(const std::string& name) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / name;
  std::filesystem::remove(file);
  return file;
}

std::vector<Variant> batches() {
  return {{kScenario, {}},
          {kScenario, {{"training.global_batch_size", "4"}}},
          {kScenario, {{"training.global_batch_size", "no"}}}};
}

TEST(Flatten, PathsAndScalars) {
  const Json nested = {{"a", {{"b", 1}, {"c", Json::array({true, "x"})}}}, {"d", nullptr}};
  EXPECT_EQ(flattened(nested).dump(), R"({"a.b":1,"a.c.0":true,"a.c.1":"x","d":null})");
}

TEST(Batch, EveryVariantHasItsRow) {
  Journal journal("");
  run_batch(batches(), {.journal = journal, .processes = 2});
  ASSERT_EQ(journal.rows().size(), 3U);
  for (const Json& row : journal.rows()) {
    if (row["set"].contains("training.global_batch_size") &&
        row["set"]["training.global_batch_size"] == "no") {
      EXPECT_EQ(row["status"], "refused");
      EXPECT_THAT(row["message"].get<std::string>(), testing::HasSubstr("global_batch_size"));
      continue;
    }
    EXPECT_EQ(row["status"], "fits");
    EXPECT_GT(row["result"]["step_time_s"].get<double>(), 0.0);
    EXPECT_EQ(row["inputs"]["parallelism.data"], 2);
  }
}

// Interrupted after one run, in the middle of writing the second, and started again.
TEST(Batch, AnInterruptedBatchGoesOnWhereItStopped) {
  const std::filesystem::path file = fresh_file("interrupted.jsonl");
  std::size_t started = 0;
  {
    Journal journal(file);
    run_batch(batches(),
              {.journal = journal, .processes = 1, .stop = [&] { return started++ >= 1; }});
    EXPECT_EQ(journal.rows().size(), 1U);
  }
  const std::string whole = read_file(file);
  write_file(file, whole + whole.substr(0, whole.size() / 2));
  Journal journal(file);
  std::vector<std::size_t> counts;
  run_batch(batches(),
            {.journal = journal, .processes = 1, .progress = [&](std::size_t done, std::size_t) {
               counts.push_back(done);
             }});
  EXPECT_EQ(counts, (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(Journal(file).rows().size(), 3U);
  EXPECT_EQ(read_file(file).substr(0, whole.size()), whole);
}

TEST(Journal, ConcatenatedShardsAreOneJournal) {
  const std::filesystem::path file = fresh_file("shards.jsonl");
  write_file(file, "{\"key\":\"a\"}\n{\"key\":\"b\"}\n{\"key\":\"a\"}\n");
  EXPECT_EQ(Journal(file).rows().size(), 2U);
}

TEST(Journal, AnotherFileIsNotOverwritten) {
  const std::filesystem::path file = fresh_file("notes.txt");
  write_file(file, "my notes\n");
  EXPECT_THROW(Journal{file}, InputError);
  EXPECT_EQ(read_file(file), "my notes\n");
}

}  // namespace
}  // namespace trainyard
