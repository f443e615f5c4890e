// Does each of many runs end up in one journal exactly once, in spite of interruptions?
#include "tools/studies/batch/batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <string>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "tests/scenarios/sample.hpp"
#include "tools/studies/batch/fingerprint.hpp"
#include "tools/studies/batch/row.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

const std::string kTwoGpus = TRAINYARD_SOURCE_DIRECTORY "/scenarios/first/two_gpus.json";

std::vector<Variant> batches() {
  return {{kTwoGpus, {}},
          {kTwoGpus, {{"training.global_batch_size", "4"}}},
          {kTwoGpus, {{"training.global_batch_size", "no"}}}};
}

// Does flattening give paths and scalars?
TEST(Flatten, PathsAndScalars) {
  const Json nested = {{"a", {{"b", 1}, {"c", Json::array({true, "x"})}}}, {"d", nullptr}};
  EXPECT_EQ(flattened(nested).dump(), R"({"a.b":1,"a.c.0":true,"a.c.1":"x","d":null})");
}

// Does every variant have its row?
TEST(Batch, EveryVariantHasItsRow) {
  Journal journal("");
  run_batch(batches(), {.journal = journal, .processes = 2});
  ASSERT_EQ(journal.rows().size(), 3U);
  std::size_t fitting = 0;
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
    ++fitting;
  }
  EXPECT_EQ(fitting, 2U);
}

// Does a row say that a node has too little memory for the optimizer's state, as a run does?
TEST(Batch, WhatTheHostCannotHoldDoesNotFit) {
  const std::string file =
      TRAINYARD_SOURCE_DIRECTORY "/scenarios/offload/llama3_8b_8xa100_40gb_cpu_adam.json";
  const std::string node = R"({"like": "dgx_a100_40gb", "host_memory": {"usable": "64 GiB"}})";
  const Json row = variant_row({file, {{"cluster.node", node}}}, "");
  EXPECT_EQ(row["status"], "does_not_fit");
  EXPECT_EQ(row["result"]["memory.0.fits"], true);
  EXPECT_EQ(row["result"]["host_memory.fits"], false);
  EXPECT_EQ(row["result"]["host_memory.capacity_bytes"], std::int64_t{64} << 30);
  EXPECT_EQ(row["result"]["fits"], false);
  const Json plain = variant_row({file, {}}, "");
  EXPECT_EQ(plain["status"], "fits");
  EXPECT_EQ(plain["result"]["host_memory.bytes"], row["result"]["host_memory.bytes"]);
}

// Does an interrupted batch continue where it stopped? It is interrupted after one run, in the
// middle of writing the second row, and restarted.
TEST(Batch, AnInterruptedBatchGoesOnWhereItStopped) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "interrupted.jsonl";
  std::size_t started = 0;
  {
    Journal journal(file);
    run_batch(batches(),
              {.journal = journal, .processes = 1, .stop = [&] { return started++ >= 1; }});
    EXPECT_EQ(journal.rows().size(), 1U);
  }
  const std::string whole = read_file(file);
  write_file(file, whole + whole.substr(0, whole.size() / 2));
  std::vector<std::size_t> counts;
  {
    Journal journal(file);
    run_batch(batches(),
              {.journal = journal, .processes = 1, .progress = [&](std::size_t done, std::size_t) {
                 counts.push_back(done);
               }});
    EXPECT_EQ(counts, (std::vector<std::size_t>{2, 3}));
  }
  EXPECT_EQ(Journal(file).rows().size(), 3U);
  EXPECT_EQ(read_file(file).substr(0, whole.size()), whole);
}

// A scenario with its own node type, and a journal of its two runs.
class OutdatedRows : public testing::Test {
 protected:
  OutdatedRows() {
    Json scenario = parse_json("first", read_file(kTwoGpus));
    Json node =
        parse_json("node", read_file(TRAINYARD_SOURCE_DIRECTORY "/topologies/data/dgx_h100.json"));
    scenario["cluster"] = {{"node", "node.json"}, {"nodes", 1}};
    scenario["parallelism"] = {{"data", 8}};
    scenario["training"]["global_batch_size"] = 8;
    write("node.json", node);
    write("s.json", scenario);
  }

  void write(const std::string& name, const Json& document) const {
    (void)folder_.write(name, document.dump(2));
  }
  [[nodiscard]] Json document(const std::string& name) const {
    return parse_json(name, read_file(folder_.path() / name));
  }
  // Executes both runs in that state of program and data, and returns how many rows were done anew.
  [[nodiscard]] std::size_t redone(const std::string& state) const {
    std::size_t rows = 0;
    Journal journal(folder_.path() / "runs.jsonl", state);
    const std::string file = (folder_.path() / "s.json").string();
    run_batch({{file, {}}, {file, {{"training.global_batch_size", "16"}}}},
              {.journal = journal, .processes = 1, .redone = [&](std::size_t n) { rows = n; }});
    EXPECT_EQ(journal.rows().size(), 2U);
    return rows;
  }
  [[nodiscard]] std::string lines() const { return read_file(folder_.path() / "runs.jsonl"); }

 private:
  TemporaryFolder folder_;
};

// Is an unchanged row kept?
TEST_F(OutdatedRows, WhatIsTheSameIsKept) {
  EXPECT_EQ(redone("1"), 0U);
  const std::string before = lines();
  Json scenario = document("s.json");
  scenario["training"]["micro_batch_size"] = 1;  // the default
  write("s.json", scenario);
  EXPECT_EQ(redone("1"), 0U);
  EXPECT_EQ(lines(), before);
}

// Is an edited scenario run anew?
TEST_F(OutdatedRows, AnEditedScenarioIsRunAgain) {
  EXPECT_EQ(redone("1"), 0U);
  const std::string before = lines();
  Json scenario = document("s.json");
  scenario["model"]["layers"] = 20;
  write("s.json", scenario);
  EXPECT_EQ(redone("1"), 2U);
  EXPECT_NE(lines(), before);
  scenario["model"]["layers"] = "many";
  write("s.json", scenario);
  EXPECT_EQ(redone("1"), 2U) << "a row that is refused now is another one, too";
}

// Does an edit of a file that the scenario names count?
TEST_F(OutdatedRows, AnEditedFileThatItNamesCounts) {
  EXPECT_EQ(redone("1"), 0U);
  Json node = document("node.json");
  node["gpu"] = "h800";
  write("node.json", node);
  EXPECT_EQ(redone("1"), 2U);
}

// Do other data or another program count?
TEST_F(OutdatedRows, OtherDataOrAnotherProgramCount) {
  EXPECT_EQ(redone("1"), 0U);
  EXPECT_EQ(redone("2"), 2U);
  EXPECT_EQ(redone("2"), 0U);
}

// Are rows of older journals run anew?
TEST_F(OutdatedRows, RowsOfOlderJournalsAreRunAgain) {
  EXPECT_EQ(redone(""), 0U);
  EXPECT_THAT(lines(), testing::Not(testing::HasSubstr("fingerprint")));
  EXPECT_EQ(redone("1"), 2U);
}

// Are crashed rows run anew without loading them in this process? A fault that ended a worker could
// end this process too: only a worker may open the scenario.
TEST(CrashedRows, AreRunAgainAndNotLoadedHere) {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("s.json", read_file(kTwoGpus));
  const Json row = {{"key", scenario}, {"scenario", scenario}, {"status", "crashed"}};
  const std::string file = folder.write("runs.jsonl", row.dump() + "\n");
  Journal journal(file, "1");
  ASSERT_EQ(journal.rows().size(), 1U);
  const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  ASSERT_GE(inotify_add_watch(watch, scenario.c_str(), IN_OPEN), 0);
  const auto opened = [&] {
    char events[4096];
    return read(watch, events, sizeof events) > 0;
  };
  EXPECT_EQ(drop_outdated(journal, {{scenario, {}}}), 1U);
  EXPECT_FALSE(opened());
  run_batch({{scenario, {}}}, {.journal = journal, .processes = 1});
  EXPECT_TRUE(opened()) << "by the worker";
  EXPECT_EQ(journal.rows().at(0).at("status"), "fits");
  close(watch);
}

// Does the fingerprint depend on the program and the data?
TEST(Fingerprint, KnowsProgramAndData) {
  const TemporaryFolder data;
  (void)data.write("models/data/a.json", "{}");
  const std::string before = state_fingerprint({data.path()});
  EXPECT_EQ(state_fingerprint({data.path()}), before);
  (void)data.write("models/data/a.json", "{ }");
  EXPECT_NE(state_fingerprint({data.path()}), before);
}

// Does it depend on the user's files too, and on which folder comes first?
TEST(Fingerprint, KnowsTheFilesOfTheUser) {
  const TemporaryFolder shipped;
  const TemporaryFolder own;
  (void)shipped.write("models/data/a.json", "{}");
  const std::string alone = state_fingerprint({shipped.path()});
  EXPECT_EQ(state_fingerprint({own.path(), shipped.path()}), alone) << "an empty folder";
  (void)own.write("topologies/data/a.json", "{}");
  const std::string both = state_fingerprint({own.path(), shipped.path()});
  EXPECT_NE(both, alone);
  EXPECT_NE(state_fingerprint({shipped.path(), own.path()}), both);
}

// Does the fingerprint follow names of files? A file that a named file names counts as well, and
// the search ends for files that name each other.
TEST(Fingerprint, FollowsNames) {
  const TemporaryFolder folder;
  (void)folder.write("a.json", R"({"gpu": "b.json"})");
  (void)folder.write("b.json", R"({"sheet": "a.json", "peak": 1})");
  const Json names_a = {{"cluster", {{"node", "a.json"}}}};
  const std::string before = document_fingerprint("1", names_a, folder.path());
  EXPECT_EQ(document_fingerprint("1", names_a, folder.path()), before);
  (void)folder.write("b.json", R"({"sheet": "a.json", "peak": 2})");
  EXPECT_NE(document_fingerprint("1", names_a, folder.path()), before);
}

// Is a row refused that holds a value that is not a number? JSON has no such numbers: the row would
// hold a null, and a resumed sweep would accept it.
TEST(Journal, TakesNoRowWithWhatIsNoNumber) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "runs.jsonl";
  Journal journal(file);
  for (const Json& result :
       {Json{{"step_time_s", NAN}}, Json{{"mfu", -HUGE_VAL}}, Json{{"memory.0.peak_bytes", -2}}}) {
    EXPECT_THROW(journal.append({{"key", "one"}, {"result", result}}), InternalError);
    EXPECT_TRUE(journal.rows().empty());
    EXPECT_EQ(read_file(file), "");
  }
  journal.append({{"key", "one"}, {"result", {{"error", -2}}}});
  EXPECT_EQ(journal.rows().size(), 1U);
}

// Are concatenated shards one journal?
TEST(Journal, ConcatenatedShardsAreOneJournal) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "shards.jsonl";
  write_file(file, "{\"key\":\"a\"}\n{\"key\":\"b\"}\n{\"key\":\"a\"}\n");
  EXPECT_EQ(Journal(file).rows().size(), 2U);
}

// Are two processes kept from writing one journal?
TEST(Journal, TwoProcessesDoNotWriteOneJournal) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "locked.jsonl";
  {
    Journal first(file);
    first.append({{"key", "a"}});
    EXPECT_THROW(Journal{file}, InputError);
    first.append({{"key", "b"}});
  }
  EXPECT_EQ(Journal(file).rows().size(), 2U);
}

// Does the journal report a full disk? A file that takes only a part of a row takes no more, and
// the reason is the system's.
TEST(Journal, AFullDiskSaysSo) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "full.jsonl";
  Journal journal(file);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit most{.rlim_cur = 100, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &most);
  std::string told;
  try {
    journal.append({{"key", std::string(200, 'x')}});
  } catch (const InputError& error) {
    told = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, ignored);
  EXPECT_THAT(told, testing::HasSubstr("full.jsonl: cannot be written: File too large"));
}

// Does a rewritten journal stay locked? The lock must not stay with the file that was replaced.
TEST(Journal, ARewrittenJournalStaysLocked) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "rewritten.jsonl";
  write_file(file, "{\"key\":\"a\"}\n{\"key\":\"b\",\"fingerprint\":\"1\"}\n");
  Journal first(file);
  EXPECT_EQ(first.drop_outdated_rows({{"a", "1"}, {"b", "1"}}), 1U);
  EXPECT_THROW(Journal{file}, InputError);
  first.append({{"key", "c"}});
  EXPECT_EQ(read_file(file), "{\"key\":\"b\",\"fingerprint\":\"1\"}\n{\"key\":\"c\"}\n");
}

// Is a file that is not a journal left unchanged?
TEST(Journal, AnotherFileIsNotOverwritten) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "notes.txt";
  write_file(file, "my notes\n");
  EXPECT_THROW(Journal{file}, InputError);
  EXPECT_EQ(read_file(file), "my notes\n");
}

// Is it left unchanged where it does not end with a newline, unlike a row that was cut short?
TEST(Journal, OnlyARowIsCutShort) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "scenario.json";
  const std::string row = "{\"key\":\"a\"}\n";
  for (const std::string rest : {"{\"model\": \"llama3-8b\"}", "my notes", " "}) {
    for (const std::string& text : {rest, row + rest}) {
      write_file(file, text);
      EXPECT_THROW(Journal{file}, InputError) << text;
      EXPECT_EQ(read_file(file), text);
    }
  }
  for (const std::string rest : {"{", "{\"key\":", "{\"key\":\"b\",\"sc"}) {
    write_file(file, row + rest);
    EXPECT_EQ(Journal(file).rows().size(), 1U) << rest;
    EXPECT_EQ(read_file(file), row);
  }
}

}  // namespace
}  // namespace trainyard
