// The files that `trainyard run` writes, and whether they can be read back.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/property_tree/xml_parser.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "sim/base/json_parse.hpp"
#include "tests/tools/shell.hpp"

namespace trainyard {
namespace {

using test::Outcome;
using test::Scratch;

constexpr const char* kScenarios[] = {"scenarios/first/two_gpus.json",
                                      "scenarios/llama3/llama3_8b_8xh100.json",
                                      "scenarios/llama3/llama3_70b_64xh100.json"};

// The folder's own files, without the links into the tree.
std::vector<std::string> written(const Scratch& scratch) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(scratch.folder())) {
    if (!entry.is_symlink() && entry.is_regular_file()) {
      names.push_back(std::filesystem::relative(entry.path(), scratch.folder()).string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Does --out write everything, and does the command report where?
TEST(Outputs, OutWritesEverythingAndSaysWhere) {
  const Scratch scratch;
  const Outcome outcome = scratch.sh("trainyard run scenarios/first/two_gpus.json --out a/b");
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(written(scratch),
              testing::IsSupersetOf({"a/b/csv/breakdown.csv", "a/b/report.html", "a/b/result.json",
                                     "a/b/scenario.json", "a/b/trace.json.gz"}));
  for (const std::string place : {"a/b/scenario.json", "a/b/result.json", "a/b/csv",
                                  "a/b/report.html", "a/b/trace.json.gz"}) {
    EXPECT_THAT(outcome.out, testing::HasSubstr("  " + place));
  }
}

// Is no input replaced by an output, and no output by another one? The resolved scenario goes
// beside the result, where the user's own scenario may lie.
TEST(Outputs, NothingReplacesAnInputOrAnotherOutput) {
  const Scratch scratch;
  ASSERT_EQ(scratch
                .sh("mkdir mine && cp scenarios/first/two_gpus.json keep.scenario.json && "
                    "cp keep.scenario.json mine/scenario.json")
                .exit,
            0);
  const std::string kept = scratch.read("keep.scenario.json");
  const std::pair<const char*, const char*> cases[] = {
      {"run keep.scenario.json --json keep.json", "keep.scenario.json: is read by this command"},
      {"run mine/scenario.json --out mine", "mine/scenario.json: is read by this command"},
      {"run keep.scenario.json --json ./keep.scenario.json", "is read by this command"},
      {"explain keep.scenario.json --csv keep.scenario.json", "is read by this command"},
      {"run keep.scenario.json --json a.x --html a.x", "a.x: is named for two outputs"},
      {"import hf-config keep.scenario.json -o keep.scenario.json", "is read by this command"},
      {"compare keep.scenario.json mine/scenario.json --json c --csv ./c", "two outputs"},
      {"sweep keep.scenario.json --over training.micro_batch_size=1 --csv j --journal j",
       "j: is named for two outputs"}};
  std::size_t refused = 0;
  for (const auto& [command, message] : cases) {
    const Outcome outcome = scratch.sh(std::string("trainyard ") + command);
    EXPECT_EQ(outcome.exit, 2) << command;
    EXPECT_THAT(outcome.err, testing::HasSubstr(message)) << command;
    ++refused;
  }
  EXPECT_EQ(refused, 8U);
  EXPECT_EQ(scratch.read("keep.scenario.json"), kept);
  EXPECT_EQ(scratch.read("mine/scenario.json"), kept);
  EXPECT_THAT(written(scratch),
              testing::UnorderedElementsAre("keep.scenario.json", "mine/scenario.json"));
}

// Do numbers that no command can use end in a message? Without a limit, -1 processes are as many as
// a number has, and a run of 1e24 tokens never ends.
TEST(Outputs, NumbersThatNoCommandCanUseAreRefused) {
  const Scratch scratch;
  const std::string goodput = "goodput scenarios/goodput/llama3_8b_64xh100.json --runs 4 ";
  const std::pair<std::string, const char*> cases[] = {
      {"serve --processes -1", "--processes: -1 is not a number from 0 to 4096"},
      {goodput + "--days 30 --seed -1", "--seed: -1 is not a number from 0"},
      {goodput + "--tokens 1e30", "1e30 is no number of tokens up to 1e18"},
      {goodput + "--tokens 1e18", "days without a failure"}};
  for (const auto& [command, message] : cases) {
    const Outcome outcome = scratch.sh("trainyard " + command);
    EXPECT_EQ(outcome.exit, 2) << command;
    EXPECT_THAT(outcome.err, testing::HasSubstr(message)) << command;
  }
}

// Are devices and standard output written in place? The command writes to the device and does not
// replace it, and it writes no other file there; the same holds for a log that the shell holds
// open.
TEST(Outputs, DevicesAndStandardOutputAreWrittenAsTheyStand) {
  const Scratch scratch;
  const std::string run = "trainyard run scenarios/first/two_gpus.json ";
  for (const std::string option : {"--json", "--trace", "--html", "--svg", "--missing"}) {
    const Outcome full = scratch.sh(run + option + " /dev/full");
    EXPECT_EQ(full.exit, 2) << option;
    EXPECT_THAT(full.err, testing::HasSubstr("/dev/full: cannot be written: No space left"));
  }
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  const Outcome appended =
      scratch.sh("echo before > log && " + run + "--json /dev/stdout >> log && echo after >> log");
  EXPECT_EQ(appended.exit, 0) << appended.err;
  const std::string log = scratch.read("log");
  EXPECT_TRUE(log.starts_with("before\n{")) << log.substr(0, 80);
  EXPECT_THAT(log, testing::Not(testing::HasSubstr("fits: "))) << "the file alone, no report";
  EXPECT_TRUE(log.ends_with("after\n"));
  EXPECT_FALSE(std::filesystem::exists("/dev/stdout.scenario.json"));
}

// Is a closed standard output refused as a file?
TEST(Outputs, AClosedStandardOutputIsNoFile) {
  const Scratch scratch;
  const Outcome closed =
      scratch.sh("trainyard run scenarios/first/two_gpus.json --json /dev/stdout >&-");
  EXPECT_EQ(closed.exit, 2);
  EXPECT_THAT(closed.err, testing::HasSubstr("cannot be written"));
  EXPECT_FALSE(std::filesystem::exists("/dev/stdout.scenario.json"));
  const Outcome other = scratch.sh("trainyard run scenarios/first/two_gpus.json --json a.json >&-");
  EXPECT_EQ(other.exit, 2) << "the report cannot be printed";
  EXPECT_TRUE(nlohmann::ordered_json::accept(scratch.read("a.json")));
}

// The prefix that runs the command as a user without access to every folder, because root may enter
// all of them. Empty when the tests do not run as root; nothing when there is no other user.
std::optional<std::string> as_a_user(const Scratch& scratch) {
  if (geteuid() != 0) return "";
  std::string words = "setpriv --reuid=65534 --regid=65534 --clear-groups ";
  const Outcome probe = scratch.sh("chmod 755 .. . && " + words + "trainyard --version");
  if (probe.exit != 0) return std::nullopt;
  return words;
}

// Are paths refused below a folder that may not be entered?
TEST(Outputs, PlacesBelowAFolderThatMayNotBeEnteredAreRefused) {
  const Scratch scratch;
  const std::optional<std::string> user = as_a_user(scratch);
  if (!user) GTEST_SKIP() << "SKIPPED, NOT TESTED: no other user can run the command here";
  ASSERT_EQ(scratch.sh("mkdir -p locked/deep && chmod 000 locked").exit, 0);
  for (const std::string command :
       {"run scenarios/first/two_gpus.json --json ", "run scenarios/first/two_gpus.json --html ",
        "run scenarios/first/two_gpus.json --svg ", "run scenarios/first/two_gpus.json --out ",
        "run scenarios/first/two_gpus.json --trace ",
        "sweep scenarios/first/two_gpus.json --journal ",
        "sweep scenarios/first/two_gpus.json --csv ", "init --yes --force --output ",
        "search scenarios/first/two_gpus.json --journal ", "import chakra --output /dev/null "}) {
    for (const std::string place : {"locked/x", "locked/deep/x"}) {
      const Outcome outcome = scratch.sh(*user + "trainyard " + command + place);
      EXPECT_EQ(outcome.exit, 2) << command << place << outcome.err;
      EXPECT_THAT(outcome.err, testing::HasSubstr("locked")) << command << place;
    }
  }
  EXPECT_EQ(scratch.sh("chmod 755 locked && ls locked locked/deep").out,
            "locked:\ndeep\n\nlocked/deep:\n");
}

// Do names not control the terminal?
TEST(Outputs, NamesDoNotSteerTheTerminal) {
  const Scratch scratch;
  const Outcome shown = scratch.sh(
      "sed 's/\"description\": \"/&\\\\u001b[2J\\\\u202e/' scenarios/first/two_gpus.json >s.json; "
      "trainyard run s.json");
  EXPECT_EQ(shown.exit, 0) << shown.err;
  EXPECT_THAT(shown.out, testing::HasSubstr("\\u001b[2J\\u202e"));
  EXPECT_THAT(shown.out, testing::Not(testing::HasSubstr("\x1b")));
  for (const std::string command : {"run $'x\\e[2J'", "run s.json --set $'model=\\e[2J'",
                                    "run s.json $'--\\e[2J'", "$'\\e[2J'"}) {
    const Outcome refused = scratch.sh("trainyard " + command);
    EXPECT_EQ(refused.exit, 2) << command;
    EXPECT_THAT(refused.err, testing::Not(testing::HasSubstr("\x1b"))) << command;
    EXPECT_THAT(refused.err, testing::HasSubstr("\\u001b")) << command;
  }
}

// Do runs that write one file at once all succeed?
TEST(Outputs, RunsThatWriteOneFileAtOnceAllSucceed) {
  const Scratch scratch;
  const std::string one =
      "trainyard run scenarios/first/two_gpus.json --trace a.json.gz --tables c > /dev/null";
  const Outcome outcome = scratch.sh("for i in 1 2 3 4; do { " + one +
                                     " || echo failed; } & done; wait; gzip -t a.json.gz");
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(written(scratch), testing::Not(testing::Contains(testing::HasSubstr("partial"))));
}

// Does a picture show every stage? Each stage has a row, boxes lie within the picture, and a second
// run gives the same bytes.
TEST(Outputs, APictureShowsEveryStage) {
  const Scratch scratch;
  const std::string run = "trainyard run scenarios/llama3/llama3_70b_64xh100.json --svg ";
  const Outcome outcome = scratch.sh(run + "a.svg && " + run + "b.svg && cmp a.svg b.svg");
  ASSERT_EQ(outcome.exit, 0) << outcome.err << outcome.out;
  EXPECT_THAT(outcome.out, testing::HasSubstr("Picture            a.svg"));
  boost::property_tree::ptree tree;
  std::istringstream text(scratch.read("a.svg"));
  boost::property_tree::read_xml(text, tree);
  const auto& picture = tree.get_child("svg");
  const double width = picture.get<double>("<xmlattr>.width");
  std::size_t boxes = 0;
  std::set<std::string> words;
  const auto& rows = picture.get_child("g");
  for (const auto& [name, element] : rows) {
    if (name == "text") words.insert(element.data());
    if (name != "rect") continue;
    ++boxes;
    EXPECT_LE(element.get<double>("<xmlattr>.x") + element.get<double>("<xmlattr>.width"), width);
  }
  for (const char* stage : {"stage 0", "stage 1", "stage 2", "stage 3"})
    EXPECT_TRUE(words.contains(stage)) << stage;
  // 4 stages, 64 microbatches, 5 chunks, forward and backward.
  EXPECT_GE(boxes, 4U * 64U * 5U * 2U);
}

// Does a token budget give the days, GPU-hours and cost of the training, on the terminal and on
// the page? A step of 128 sequences of 8192 has 1.05 M tokens, so this budget is 1,000 steps.
TEST(Outputs, ATokenBudgetGivesDaysAndCost) {
  const Scratch scratch;
  const std::string run = "trainyard run scenarios/llama3/llama3_8b_8xh100.json ";
  const Outcome outcome =
      scratch.sh(run + "--tokens 1.048576B --price 2.5 --json a.json --html a.html");
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  const double step_s = parse_unchecked_json(scratch.read("a.json")).at("step_time_s");
  const double gpu_hours = 1000.0 * step_s / 3600.0 * 8.0;
  EXPECT_THAT(outcome.out, testing::HasSubstr(fmt::format(
                               "1.05 B tokens take {:.4g} days, {:.0f} GPU-hours, which cost "
                               "{:.0f}",
                               1000.0 * step_s / 86400.0, gpu_hours, 2.5 * gpu_hours)));
  EXPECT_THAT(scratch.read("a.html"),
              testing::HasSubstr(fmt::format("{:.0f} GPU-hours</dd>", gpu_hours)));
  EXPECT_EQ(scratch.sh(run + "--tokens many").exit, 2);
  const Outcome price = scratch.sh(run + "--price 2");
  EXPECT_EQ(price.exit, 2);
  EXPECT_THAT(price.err, testing::HasSubstr("--tokens 15T"));
}

// Do sweep, search, collective, compare and memory write pages?
TEST(Outputs, StudiesWritePages) {
  const Scratch scratch;
  const std::string scenario = " scenarios/first/two_gpus.json ";
  const std::map<std::string, std::string> shown = {
      {"sweep" + scenario + "--over training.recompute=none,full", "id=\"runs\""},
      {"search" + scenario + "--no-refine", "Pareto front"},
      {"collective all_reduce --algorithms ring --sizes 1M,4M", "busbw (GB/s)"},
      {"collective all_reduce --nodes 1,2 --algorithms ring --sizes 1M", "id=\"scaling\""},
      {"collective all_reduce --nodes 2 --split data=8 --sizes 1M", "id=\"rows\""},
      {"compare" + scenario + "--with training.recompute=full", "id=\"inputs\""},
      {"memory" + scenario, "id=\"memory\""}};
  for (const auto& [command, part] : shown) {
    const Outcome outcome = scratch.sh("trainyard " + command + " --html p.html");
    EXPECT_EQ(outcome.exit, 0) << command << outcome.err;
    const std::string page = scratch.read("p.html");
    EXPECT_TRUE(page.starts_with("<!doctype html>")) << command;
    EXPECT_THAT(page, testing::HasSubstr(part)) << command;
    EXPECT_THAT(page, testing::Not(testing::HasSubstr("http"))) << command;
  }
}

// Does a trace folder hold one file for each rank?
TEST(Outputs, ATraceFolderHoldsOneFileForEachRank) {
  const Scratch scratch;
  const Outcome outcome = scratch.sh(
      "trainyard run scenarios/first/two_gpus.json --trace-dir traces --trace-ranks 0,1 && "
      "gzip -d traces/*.gz");
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  for (const int rank : {0, 1}) {
    const auto trace =
        parse_unchecked_json(scratch.read("traces/rank_" + std::to_string(rank) + ".json"));
    EXPECT_EQ(trace["distributedInfo"]["rank"], rank) << "which reader it belongs to";
    std::size_t slices = 0;
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] == "X") {
        EXPECT_EQ(event["pid"], rank);
        ++slices;
      }
    }
    EXPECT_GT(slices, 0U);
  }
}

// Does the command search for changes that fit only where the search is quick? Where a step does
// not fit, `run` simulates on a few GPUs the changes that would fit. On many GPUs that would take
// many times as long as the run, and the output names the command to use.
TEST(Outputs, WhatWouldFitIsLookedForWhereItIsSoonFound) {
  const Scratch scratch;
  const std::string large = " --set training.micro_batch_size=8 --set training.recompute=none";
  const Outcome few = scratch.sh("trainyard run scenarios/llama3/llama3_8b_8xh100.json" + large);
  EXPECT_EQ(few.exit, 1) << few.err;
  EXPECT_THAT(few.out, testing::HasSubstr("The least change that fits"));
  const Outcome many = scratch.sh(
      "trainyard run scenarios/megatron/gpt_39p1b_512xa100.json --set training.recompute=none");
  EXPECT_EQ(many.exit, 1) << many.err;
  EXPECT_THAT(many.out,
              testing::HasSubstr("`trainyard memory scenarios/megatron/gpt_39p1b_512xa100.json`"));
  EXPECT_THAT(many.out, testing::Not(testing::HasSubstr("least change that fits:")));
}

// Does a validation that predicts nothing exit with 1?
TEST(Outputs, AValidationThatPredictsNothingSaysNo) {
  const Scratch scratch;
  write_file(scratch.folder() / "rows.json",
             R"([{"id": "mine-1", "model": {}, "measured": {"iter_time_s": 1.0}}])");
  const Outcome outcome = scratch.sh("trainyard validate rows.json");
  EXPECT_EQ(outcome.exit, 1) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("1 measured runs: 0 predicted, 1 not"), std::string::npos)
      << outcome.out;
}

// Are intervals fitted to training runs alone, and only with each source left out?
TEST(Outputs, IntervalsAreFittedToRunsOfTrainingLeftOut) {
  const Scratch scratch;
  write_file(scratch.folder() / "a100_sxm.csv",
             "op,dtype,gpus,nccl_version,size_bytes,time_us\nall_gather,half,2,2.27,512,8.1\n");
  const std::string runs = "tests/measured/published_runs.json --only korthikanti";
  for (const std::string& rows : {std::string("a100_sxm.csv --left-out"), runs}) {
    const Outcome none = scratch.sh("trainyard validate " + rows + " --intervals steps.json");
    EXPECT_EQ(none.exit, 2) << none.out;
    EXPECT_NE(none.err.find("intervals are fitted to training runs with --left-out"),
              std::string::npos)
        << none.err;
  }
  const Outcome few =
      scratch.sh("trainyard validate " + runs + " --left-out --intervals steps.json");
  EXPECT_EQ(few.exit, 2) << few.out;
  EXPECT_NE(few.err.find("8 runs do not determine intervals"), std::string::npos) << few.err;
  EXPECT_EQ(few.out, "");
  EXPECT_FALSE(std::filesystem::exists(scratch.folder() / "steps.json"));
}

// Does a launch that cannot run leave no scenario?
TEST(Outputs, ALaunchThatCannotRunLeavesNoScenario) {
  const Scratch scratch;
  const Outcome outcome = scratch.sh(
      "trainyard import megatron tests/scenarios/import/pretrain_gpt.sh --node dgx_x -o made.json");
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr("--node: \"dgx_x\" is not one of"));
  EXPECT_EQ(outcome.out, "");
  EXPECT_FALSE(scratch.holds("made.json"));
}

// Do the cluster of a launch and that of a fabric run as files of a scenario, and the copy of a
// scenario on the nodes of a launch?
TEST(Outputs, ImportedClustersRun) {
  const Scratch scratch;
  const std::string launch = "trainyard import launch tests/scenarios/import/launch/";
  const std::string run =
      "trainyard run scenarios/first/two_gpus.json --set parallelism.data=32 --set "
      "training.global_batch_size=32 --set cluster='{\"file\": \"made.json\"}'";
  for (const std::string& import :
       {launch + "slurm_torchrun.sh -o made.json",
        std::string("trainyard import ib-fabric tests/scenarios/import/ib_fabric/rails.txt --node "
                    "dgx_h100 -o made.json"),
        std::string("trainyard import ib-fabric "
                    "tests/scenarios/import/ib_fabric/missing_cable.txt --node dgx_h100 > "
                    "made.json")}) {
    SCOPED_TRACE(import);
    const Outcome imported = scratch.sh(import);
    EXPECT_EQ(imported.exit, 0) << imported.err;
    EXPECT_THAT(imported.out + imported.err, testing::HasSubstr("assumed:\n  - "));
    const Outcome ran = scratch.sh(run);
    EXPECT_EQ(ran.exit, 0) << ran.err;
  }
  const Outcome copied = scratch.sh(
      launch + "slurm_torchrun.sh --scenario scenarios/llama3/llama3_8b_8xh100.json -o copy.json");
  EXPECT_EQ(copied.exit, 0) << copied.err;
  EXPECT_THAT(copied.out, testing::HasSubstr("parallelism.data is 16, not 4"));
  EXPECT_THAT(scratch.sh("trainyard run copy.json").out, testing::HasSubstr("one step takes"));
}

// Does the resolved scenario give the same result?
TEST(Outputs, TheResolvedScenarioGivesTheSameResult) {
  for (const std::string scenario : kScenarios) {
    const Scratch scratch;
    ASSERT_EQ(scratch.sh("trainyard run " + scenario + " --json first.json").exit, 0);
    ASSERT_TRUE(scratch.holds("first.scenario.json"));
    const Outcome again = scratch.sh("trainyard run first.scenario.json --json again.json");
    ASSERT_EQ(again.exit, 0) << again.err;
    EXPECT_EQ(scratch.read("first.json"), scratch.read("again.json")) << scenario;
    EXPECT_EQ(scratch.read("first.scenario.json"), scratch.read("again.scenario.json"));
  }
}

// Does a workload from a file take the same time to the last bit? The runs are ideal, because the
// waits of replicas and the practices of a framework belong to the scenario. The test does not
// compare memory: communication buffers and fragmentation belong to the framework, too, which a
// workload does not name.
TEST(Outputs, AWorkloadFromAFileTakesTheSameTimeToTheLastBit) {
  for (const std::string scenario : kScenarios) {
    SCOPED_TRACE(scenario);
    const Scratch scratch;
    ASSERT_EQ(scratch.sh("trainyard run " + scenario + " --ideal --json ours.json").exit, 0);
    ASSERT_EQ(
        scratch.sh("trainyard show workload " + scenario + " --ideal --format json > w.json").exit,
        0);
    ASSERT_EQ(scratch.sh("trainyard show topology " + scenario + " --format json > c.json").exit,
              0);
    const Outcome replay =
        scratch.sh("trainyard run --workload w.json --cluster c.json --json theirs.json");
    ASSERT_EQ(replay.exit, 0) << replay.err;
    const auto ours = parse_unchecked_json(scratch.read("ours.json"));
    const auto theirs = parse_unchecked_json(scratch.read("theirs.json"));
    for (const char* key : {"step_time_s", "breakdown_s", "links"}) {
      EXPECT_EQ(ours.at(key), theirs.at(key)) << key;
    }
  }
}

// Is a workload with its scenario the same run? The framework, the host and NCCL's settings belong
// to the scenario: step, memory and use of links are the same too.
TEST(Outputs, AWorkloadBesideItsScenarioIsTheSameRun) {
  const Scratch scratch;
  const std::string scenario =
      "scenarios/first/two_gpus.json --set framework=deepspeed --set host=megatron_core --set "
      "stragglers=true --set 'collectives={\"nccl\":{\"proto\":\"LL\"}}' ";
  ASSERT_EQ(scratch.sh("trainyard run " + scenario + " --json ours.json").exit, 0);
  ASSERT_EQ(scratch.sh("trainyard show workload " + scenario + " --format json > w.json").exit, 0);
  const Outcome replay =
      scratch.sh("trainyard run " + scenario + " --workload w.json --json theirs.json");
  ASSERT_EQ(replay.exit, 0) << replay.err;
  ASSERT_EQ(scratch.sh("trainyard show topology " + scenario + " --format json > c.json").exit, 0);
  EXPECT_EQ(
      scratch.sh("trainyard run --workload w.json --cluster scenarios/first/two_gpus.json").out,
      scratch.sh("trainyard run --workload w.json --cluster c.json").out);
  ASSERT_EQ(scratch.sh("trainyard run --workload w.json --cluster c.json --json bare.json").exit,
            0);
  const auto ours = parse_unchecked_json(scratch.read("ours.json"));
  const auto theirs = parse_unchecked_json(scratch.read("theirs.json"));
  for (const char* key : {"step_time_s", "breakdown_s", "links", "memory", "collectives"}) {
    EXPECT_EQ(ours.at(key), theirs.at(key)) << key;
  }
  EXPECT_FALSE(theirs.at("approximations").contains("software_unknown"));
  const auto bare = parse_unchecked_json(scratch.read("bare.json"));
  EXPECT_LT(bare.at("step_time_s"), ours.at("step_time_s"));
  EXPECT_TRUE(bare.at("approximations").contains("software_unknown"));
}

// Does a path that cannot be written leave nothing? The command refuses paths that cannot hold a
// file before it prints or writes anything.
TEST(Outputs, APlaceThatCannotBeWrittenLeavesNothing) {
  const std::string run = "trainyard run scenarios/first/two_gpus.json ";
  for (const std::string option :
       {"--out taken/x", "--json taken/x.json", "--tables taken", "--trace taken/t.json",
        "--json folder", "--trace folder", "--json a.json --trace /proc/absent/t.json",
        "--json a.json --trace-ranks 7 --trace t.json"}) {
    SCOPED_TRACE(option);
    const Scratch scratch;
    ASSERT_EQ(scratch.sh("echo kept > taken; mkdir folder").exit, 0);
    const Outcome outcome = scratch.sh(run + option);
    EXPECT_EQ(outcome.exit, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(written(scratch), testing::ElementsAre("taken"));
    EXPECT_EQ(scratch.read("taken"), "kept\n");
  }
}

// Does the result hold timing only on request?
TEST(Outputs, TimingIsOnlyThereWhenAskedFor) {
  const Scratch scratch;
  ASSERT_EQ(scratch.sh("trainyard run scenarios/first/two_gpus.json --json a.json").exit, 0);
  ASSERT_EQ(scratch.sh("trainyard run scenarios/first/two_gpus.json --json b.json --timing").exit,
            0);
  EXPECT_THAT(scratch.read("a.json"), testing::Not(testing::HasSubstr("wall")));
  EXPECT_THAT(scratch.read("b.json"), testing::HasSubstr("wall"));
}

}  // namespace
}  // namespace trainyard
