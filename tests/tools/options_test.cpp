// The options of all commands: one name has one meaning, and those that every command has do what
// they say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/json_parse.hpp"
#include "tests/tools/shell.hpp"

namespace trainyard {
namespace {

using test::lines_of;
using test::Outcome;
using test::Scratch;
using test::with_subcommands;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string kRun = "trainyard run scenarios/first/two_gpus.json ";

struct ShownOption {
  std::string command, name, takes;  // what it takes, without the values in {}; empty: a flag
};

// Every option with two dashes, as the help of each command shows it.
std::vector<ShownOption> all_options(const Scratch& scratch) {
  std::vector<ShownOption> all;
  for (const std::string& command : with_subcommands(scratch, "trainyard")) {
    for (const std::string& line : lines_of(scratch.sh(command + " --help").out)) {
      if (!line.starts_with("  -")) continue;
      std::istringstream words(line);
      std::string names, takes;
      words >> names >> takes;
      const std::size_t dashes = names.find("--");
      if (dashes == std::string::npos) continue;
      const bool flag = takes.empty() || !std::isupper(static_cast<unsigned char>(takes[0])) ||
                        std::islower(static_cast<unsigned char>(takes[takes.size() > 1 ? 1 : 0]));
      all.push_back(
          {command, names.substr(dashes), flag ? "" : takes.substr(0, takes.find_first_of(":="))});
    }
  }
  return all;
}

// Does every option take the same in every command, and does the help name it?
TEST(Options, AnOptionTakesTheSameInEveryCommand) {
  const Scratch scratch;
  std::map<std::string, std::map<std::string, std::string>> commands_by_type;  // by option
  std::size_t options = 0;
  for (const ShownOption& option : all_options(scratch)) {
    commands_by_type[option.name][option.takes] = option.command;
    EXPECT_THAT((std::set<std::string>{"INT", "UINT", "FLOAT"}),
                Not(testing::Contains(option.takes)))
        << option.command << " " << option.name;
    ++options;
  }
  EXPECT_GT(options, 150U);
  for (const auto& [name, types] : commands_by_type)
    EXPECT_EQ(types.size(), 1U) << name << ": " << testing::PrintToString(types);
}

// Is "-" standard output, without the report, for every file of results?
TEST(Options, ADashWritesToStandardOutputAlone) {
  const Scratch scratch;
  const Outcome run = scratch.sh(kRun + "--json -");
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_TRUE(parse_unchecked_json(run.out).contains("step_time_s"));
  const Outcome compared = scratch.sh(
      "trainyard compare scenarios/first/two_gpus.json --with "
      "training.recompute=full --csv -");
  EXPECT_EQ(compared.exit, 0) << compared.err;
  EXPECT_THAT(compared.out, Not(HasSubstr("scenarios")));
  EXPECT_FALSE(scratch.holds("-"));
}

// Does --quiet print nothing but errors?
TEST(Options, QuietPrintsErrorsOnly) {
  const Scratch scratch;
  const Outcome run = scratch.sh(kRun + "-q --json a.json");
  EXPECT_EQ(run.exit, 0);
  EXPECT_THAT(run.out + run.err, IsEmpty());
  EXPECT_TRUE(scratch.holds("a.json"));
  EXPECT_THAT(scratch.sh("trainyard run absent.json --quiet").err, HasSubstr("no such file"));
}

// Does --verbose name on standard error every file that is read, once, and the stages with their
// counts and times, and leave the report as it is?
TEST(Options, VerboseSaysWhatIsReadAndHowLongStagesTake) {
  const Scratch scratch;
  const Outcome plain = scratch.sh(kRun);
  const Outcome verbose = scratch.sh(kRun + "-v");
  EXPECT_THAT(plain.err, IsEmpty());
  EXPECT_EQ(verbose.exit, 0) << verbose.err;
  EXPECT_EQ(verbose.out, plain.out);
  std::vector<std::string> read, stages;
  for (const std::string& line : lines_of(verbose.err)) {
    EXPECT_TRUE(line.starts_with("trainyard: ")) << line;
    (line.starts_with("trainyard: reads ") ? read : stages).push_back(line);
  }
  EXPECT_EQ(read.front(), "trainyard: reads scenarios/first/two_gpus.json");
  EXPECT_EQ(std::set<std::string>(read.begin(), read.end()).size(), read.size());
  for (const char* file : {"models/recipes/standard.json", "kernels/profiles/a100_80gb.json"})
    EXPECT_THAT(read, Contains(testing::EndsWith(file)));
  std::vector<std::string> made;
  for (const std::string& line : stages) {
    EXPECT_THAT(line, testing::ContainsRegex(" in [0-9]+\\.[0-9]+ s$"));
    made.push_back(line.substr(0, line.rfind(" in ")));
  }
  EXPECT_THAT(
      made, ElementsAre("trainyard: builds a cluster of 2 GPUs (4 devices, 8 links)",
                        "trainyard: lowers the step to 1 program with 63 operations for 2 ranks",
                        "trainyard: folds 2 ranks to 1 rank class", "trainyard: prices 32 kernels",
                        "trainyard: simulates 4 events",
                        "trainyard: finds the peaks of memory and the breakdown of time"));
}

// Are --quiet and --verbose refused together, also before the command?
TEST(Options, QuietAndVerboseContradictEachOther) {
  const Scratch scratch;
  for (const char* line : {"trainyard -q list gpus -v", "trainyard list gpus --verbose --quiet"}) {
    const Outcome outcome = scratch.sh(line);
    EXPECT_EQ(outcome.exit, 2) << line;
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_EQ(outcome.err,
              "trainyard: --quiet prints errors only, and --verbose says more than the report "
              "(leave one out)\n");
  }
}

// Is the report coloured on demand, and never in a pipe by itself?
TEST(Options, ColourIsForTerminalsUnlessAskedFor) {
  const Scratch scratch;
  EXPECT_THAT(scratch.sh(kRun).out, Not(HasSubstr("\x1b[")));
  EXPECT_THAT(scratch.sh(kRun + "--color always").out, HasSubstr("\x1b[1;32mfits\x1b[0m:"));
  EXPECT_THAT(scratch.sh(kRun + "--color sometimes").err, HasSubstr("--color"));
}

// Does `help` show what --help shows?
TEST(Options, HelpOfACommandIsItsHelp) {
  const Scratch scratch;
  EXPECT_EQ(scratch.sh("trainyard help show topology").out,
            scratch.sh("trainyard show topology --help").out);
  const Outcome unknown = scratch.sh("trainyard help shw");
  EXPECT_EQ(unknown.exit, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean \"show\"?"));
}

// Does --set with several values say which option tries them?
TEST(Options, SetWithSeveralValuesInASweepNamesOver) {
  const Scratch scratch;
  const Outcome outcome =
      scratch.sh("trainyard sweep scenarios/first/two_gpus.json --set parallelism.tensor=1,2");
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--over parallelism.tensor=1,2"));
}

// Is a heat map over three axes refused before anything runs?
TEST(Options, AHeatMapOfThreeAxesIsRefusedBeforeTheSweep) {
  const Scratch scratch;
  const Outcome outcome = scratch.sh(
      "trainyard sweep scenarios/first/two_gpus.json --over parallelism.tensor=1,2 --over "
      "training.micro_batch_size=1,2 --over training.recompute=none,full --heat-map m.svg "
      "--journal j.jsonl");
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_THAT(outcome.err, HasSubstr("a heat map needs two axes with several values, not 3"));
  EXPECT_FALSE(scratch.holds("j.jsonl"));
}

// Does a third axis with one value, or --set, leave a heat map as it is?
TEST(Options, AHeatMapLeavesOutAxesOfOneValue) {
  const Scratch scratch;
  const std::string axes =
      "trainyard sweep scenarios/first/two_gpus.json --over training.global_batch_size=4,8 --over "
      "training.recompute=none,full ";
  ASSERT_EQ(scratch.sh(axes + "--ideal --heat-map two.svg").exit, 0);
  ASSERT_EQ(scratch.sh(axes + "--over defaults=ideal --heat-map three.svg").exit, 0);
  EXPECT_EQ(scratch.read("two.svg"), scratch.read("three.svg"));
  EXPECT_THAT(scratch.read("two.svg"), Not(HasSubstr(">-</text>")));
}

// Does a sweep with a refused run say so by its exit code?
TEST(Options, ASweepWithARefusedRunExitsWithTwo) {
  const Scratch scratch;
  const Outcome outcome = scratch.sh(
      "trainyard sweep scenarios/first/two_gpus.json --over training.micro_batch_size=1,3");
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_THAT(outcome.out, HasSubstr("refused"));
}

// Does Ctrl-C leave the journal and say how to go on?
TEST(Options, AnInterruptedSweepSaysHowToGoOn) {
  const Scratch scratch;
  const Outcome outcome = scratch.sh(
      "trainyard sweep scenarios/llama3/llama3_70b_64xh100.json --over "
      "training.global_batch_size=64,128,192,256,320,384,448,512,576,640 --journal j.jsonl "
      "--processes 1 & pid=$!\n"
      "while [ ! -s j.jsonl ]; do sleep 0.02; done; kill -INT $pid; wait $pid");
  EXPECT_EQ(outcome.exit, 130) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("interrupted after"));
  EXPECT_THAT(outcome.err, HasSubstr("the same command goes on from there (j.jsonl)"));
}

// Does a model run whose first guess does not fit, where the search finds a layout that does?
TEST(Options, AModelRunsWhereTheFirstGuessDoesNotFit) {
  const Scratch scratch;
  const std::string run = "trainyard run --model llama3-8b --gpus 1 ";
  const Outcome none = scratch.sh(run);
  EXPECT_EQ(none.exit, 1) << none.out;
  EXPECT_THAT(none.err, HasSubstr("no layout of llama3-8b on 1 GPUs fits"));
  const Outcome offloaded = scratch.sh(
      run + "--set 'offload={\"optimizer\": \"cpu\"}' --set training.gradient_precision=bf16");
  EXPECT_EQ(offloaded.exit, 0) << offloaded.err;
  EXPECT_TRUE(offloaded.out.starts_with("fits: ")) << offloaded.out;
}

// Are the short forms of numbers that people type understood?
TEST(Options, ShortFormsOfNumbersAreUnderstood) {
  const Scratch scratch;
  const auto scenario = [&](const std::string& sets) {
    const Outcome outcome = scratch.sh(
        "trainyard run scenarios/llama3/llama3_70b_64xh100.json -q --json a.json " + sets);
    EXPECT_LE(outcome.exit, 1) << outcome.err;
    return parse_unchecked_json(scratch.read("a.json")).at("scenario");
  };
  EXPECT_EQ(scenario("--set training.sequence_length=4k"),
            scenario("--set training.sequence_length=4096"));
  EXPECT_EQ(scenario("--set cluster.nic.usable=200G"),
            scenario("--set 'cluster.nic.usable=200 Gb/s'"));
  EXPECT_EQ(scenario("--set cluster.nic.usable=200Gbps"),
            scenario("--set 'cluster.nic.usable=25 GB/s'"));
  EXPECT_EQ(scenario("--set cluster.fabric.oversubscription=2:1"),
            scenario("--set cluster.fabric.oversubscription=2"));
}

// Does a collective take lists of sizes and of nodes?
TEST(Options, ACollectiveTakesListsOfSizesAndNodes) {
  const Scratch scratch;
  const Outcome outcome = scratch.sh(
      "trainyard collective all_reduce --nodes 2,1,4 --algorithms ring,hierarchical --sizes 1M,8k "
      "--csv - ");
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  const std::vector<std::string> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 1 + 3 * 2 * 2U) << outcome.out;  // nodes, algorithms, sizes
  EXPECT_TRUE(lines[0].starts_with("nodes,op,algorithm,"));
  EXPECT_TRUE(lines[1].starts_with("1,all_reduce,ring,,8,8192,")) << lines[1];
  EXPECT_TRUE(lines.back().starts_with("4,all_reduce,hierarchical,,32,1048576,")) << lines.back();
  const Outcome table = scratch.sh(
      "trainyard collective all_reduce --nodes 1,2 --algorithms ring --sizes 8k --svg s.svg");
  EXPECT_THAT(table.out, HasSubstr("1 node  2 nodes"));
  EXPECT_THAT(scratch.read("s.svg"), HasSubstr(">nodes</text>"));
}

// Does doctor call a profiler missing where the command that starts it fails, and only there?
TEST(Doctor, SaysOfTheProfilersWhatTheirCommandsSay) {
  const Scratch scratch;
  const std::string doctor = scratch.sh("trainyard doctor").out;
  for (const auto& [program, command] :
       {std::pair("trainyard-profile ", "trainyard profile measure --version"),
        std::pair("trainyard-profile-nccl ", "trainyard profile nccl --version")}) {
    const bool starts =
        scratch.sh(command).err.find("is not next to this program") == std::string::npos;
    const std::string said = std::string(starts ? "  ok       " : "  missing  ") + program;
    EXPECT_THAT(doctor, HasSubstr(said)) << command;
  }
}

// Does doctor find data that only TRAINYARD_DATA names, beside a program without its own?
TEST(Doctor, FindsDataThatOnlyTheEnvironmentNames) {
  const Scratch scratch;
  const Outcome lone = scratch.sh("cp \"$(command -v trainyard)\" lone && TRAINYARD_DATA='" +
                                  Scratch::kTree.string() + "' ./lone doctor");
  EXPECT_EQ(lone.exit, 0) << lone.err;
  EXPECT_THAT(lone.out, HasSubstr("  ok       data "));
  EXPECT_EQ(scratch.sh("env -u TRAINYARD_DATA ./lone doctor").exit, 1);
}

}  // namespace
}  // namespace trainyard
