// The manual page, bash's completion and `init`: does the program do what they describe?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/shell.hpp"

namespace trainyard {
namespace {

using test::Outcome;
using test::Scratch;
using testing::HasSubstr;

// Does the manual hold every command, and is it valid roff?
TEST(Pages, TheManualHoldsEveryCommandAndIsGoodRoff) {
  const Scratch scratch;
  const Outcome man = scratch.sh("trainyard man > trainyard.1");
  ASSERT_EQ(man.exit, 0) << man.err;
  const std::string page = scratch.read("trainyard.1");
  for (const std::string part :
       {".SS trainyard run\n", ".SS trainyard show topology\n", "\\-\\-chakra", ".SH EXIT STATUS",
        "trainyard import megatron tests/"})
    EXPECT_THAT(page, HasSubstr(part));
  if (!have(scratch, "groff"))
    GTEST_SKIP() << "SKIPPED, NOT TESTED: whether the manual is good roff needs groff";
  const Outcome set = scratch.sh("groff -man -Tutf8 -ww trainyard.1 > page.txt");
  EXPECT_EQ(set.exit, 0);
  EXPECT_EQ(set.err, "");
}

// The words that bash offers after these words.
std::string offered(const Scratch& scratch, const std::string& words) {
  const Outcome outcome =
      scratch.sh("eval \"$(trainyard completion bash)\"; COMP_WORDS=(trainyard " + words +
                 "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _trainyard; echo \"${COMPREPLY[*]}\"");
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}

// Does bash complete commands, options and choices?
TEST(Pages, BashCompletesCommandsOptionsAndChoices) {
  const Scratch scratch;
  EXPECT_EQ(offered(scratch, "co"), "compare collective completion\n");
  EXPECT_EQ(offered(scratch, "show to"), "topology\n");
  EXPECT_EQ(offered(scratch, "run --chak"), "--chakra\n");
  EXPECT_EQ(offered(scratch, "run --engine ''"), "simgrid ideal\n");
  EXPECT_EQ(offered(scratch, "list sched"), "schedules\n");
  EXPECT_EQ(offered(scratch, "import chakra --durations r"), "recorded roofline\n");
  EXPECT_EQ(offered(scratch, "run scen"), "\n") << "files are bash's own business";
}

// Does init write a scenario that runs unchanged?
TEST(Init, WritesAScenarioThatRunsAsItIs) {
  const Scratch scratch;
  const Outcome init = scratch.sh(
      "trainyard init --yes --model llama3-8b --nodes 1 --sequence 4096 --batch 8 --output "
      "mine.json");
  ASSERT_EQ(init.exit, 0) << init.err;
  EXPECT_THAT(init.out, HasSubstr("trainyard run mine.json"));
  EXPECT_THAT(scratch.read("mine.json"), HasSubstr("// Node type (trainyard list nodes)"));
  const Outcome run = scratch.sh("trainyard run mine.json");
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_TRUE(run.out.starts_with("fits: ")) << run.out;
  const Outcome again = scratch.sh("trainyard init --yes --output mine.json");
  EXPECT_EQ(again.exit, 2);
  EXPECT_EQ(again.err,
            "trainyard: mine.json: is already there (name another file with --output, or "
            "say --force)\n");
}

// Does init propose scenarios that run and can be searched? They follow published runs of their
// size, with experts over the ranks of a node, and sequences no longer than the model's.
TEST(Init, ProposesWhatRunsAndCanBeSearched) {
  const Scratch scratch;
  const auto made = [&](const std::string& options) {
    const Outcome init = scratch.sh("trainyard init --yes --force --output a.json " + options);
    EXPECT_EQ(init.exit, 0) << init.err;
    return scratch.read("a.json");
  };
  EXPECT_THAT(made("--model llama3-70b --nodes 32"), HasSubstr("\"global_batch_size\":512"));
  const std::string experts = made("--model qwen3-30b-a3b --nodes 32");
  EXPECT_THAT(experts, HasSubstr("\"expert\":8"));
  EXPECT_THAT(experts, HasSubstr("\"global_batch_size\":512"));
  EXPECT_THAT(made("--model gpt3-175b --nodes 16"), HasSubstr("\"sequence_length\":2048"));
}

// Does init ask questions on a terminal?
TEST(Init, AsksOnATerminal) {
  const Scratch scratch;
  if (!have(scratch, "script"))
    GTEST_SKIP() << "SKIPPED, NOT TESTED: questions need a terminal, which `script` makes";
  const Outcome asked = scratch.sh(
      "printf 'llama3-8\\nllama3-8b\\n\\n1\\n2048\\n' | script -qec 'trainyard init --batch 8 "
      "--output "
      "told.json' /dev/null");
  EXPECT_EQ(asked.exit, 0) << asked.out << asked.err;
  EXPECT_THAT(asked.out, HasSubstr("did you mean \"llama3-8b\"?"));
  EXPECT_THAT(scratch.read("told.json"), HasSubstr("\"sequence_length\":2048"));
}

// Does init report an unknown model, or one that fits nowhere?
TEST(Init, AnUnknownModelOrOneThatFitsNowhereIsSaid) {
  const Scratch scratch;
  const Outcome unknown = scratch.sh("trainyard init --yes --model lama3-8b --output a.json");
  EXPECT_EQ(unknown.exit, 2);
  EXPECT_THAT(unknown.err, HasSubstr("llama3-8b"));
  const Outcome large = scratch.sh(
      "trainyard init --yes --model gpt3-175b --nodes 1 --sequence 2048 --batch 8 --output a.json");
  EXPECT_EQ(large.exit, 1) << large.out;
  EXPECT_THAT(large.err, HasSubstr("no layout of gpt3-175b on 8 GPUs fits"));
  EXPECT_FALSE(scratch.holds("a.json"));
}

}  // namespace
}  // namespace trainyard
