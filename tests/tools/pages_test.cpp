// The manual page, bash's completion and `init`: does the program do what they describe?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

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
        "\n130\n", "trainyard import megatron tests/"})
    EXPECT_THAT(page, HasSubstr(part));
  if (!have(scratch, "groff"))
    GTEST_SKIP() << "SKIPPED, NOT TESTED: whether the manual is good roff needs groff";
  const Outcome set = scratch.sh("groff -man -Tutf8 -ww trainyard.1 > page.txt");
  EXPECT_EQ(set.exit, 0);
  EXPECT_EQ(set.err, "");
}

// Does every command have a page of its own, and is each good roff?
TEST(Pages, EveryCommandHasAPage) {
  const Scratch scratch;
  const Outcome all = scratch.sh("trainyard man --out pages && ls pages");
  ASSERT_EQ(all.exit, 0) << all.err;
  for (const char* page : {"trainyard.1\n", "trainyard-run.1\n", "trainyard-show-topology.1\n"})
    EXPECT_THAT(all.out, HasSubstr(page));
  EXPECT_GE(std::ranges::count(all.out, '\n'), 30);
  const Outcome one =
      scratch.sh("trainyard man show topology | cmp - pages/trainyard-show-topology.1");
  EXPECT_EQ(one.exit, 0) << one.out << one.err;
  const std::string page = scratch.read("pages/trainyard-run.1");
  for (const char* part : {".TH TRAINYARD\\-RUN 1", "trainyard\\-run \\- ", ".SH OPTIONS\n",
                           "\n.SH EXAMPLES\n", "settings.json"})
    EXPECT_THAT(page, HasSubstr(part));
  const Outcome unknown = scratch.sh("trainyard man shwo");
  EXPECT_EQ(unknown.exit, 2);
  EXPECT_EQ(unknown.err, "trainyard: there is no command \"shwo\" (did you mean \"show\"?)\n");
  EXPECT_EQ(scratch.sh("trainyard man run --out pages").exit, 2);
  if (!have(scratch, "groff"))
    GTEST_SKIP() << "SKIPPED, NOT TESTED: whether the pages are good roff needs groff";
  const Outcome set =
      scratch.sh("for page in pages/*; do groff -man -Tutf8 -ww $page > /dev/null; done");
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

// The words that zsh offers after these words, where its `compadd` prints them.
std::string offered_by_zsh(const Scratch& scratch, const std::string& words) {
  (void)scratch.sh(
      "trainyard completion zsh > _trainyard\n"
      "cat > ask <<'end'\n"
      "compdef() { }\n_files() { echo files }\n"
      "compadd() { shift; print -- ${(P)1} }\n"
      "source ./_trainyard\nwords=(trainyard \"$@\")\n"
      "CURRENT=${#words}\nPREFIX=${words[CURRENT]}\n_trainyard\nend");
  const Outcome outcome = scratch.sh("zsh -f ask " + words);
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}

// Does zsh offer commands, options, choices and files?
TEST(Pages, ZshCompletesCommandsOptionsAndChoices) {
  const Scratch scratch;
  if (!have(scratch, "zsh")) GTEST_SKIP() << "SKIPPED, NOT TESTED: zsh's completion needs zsh";
  EXPECT_THAT(offered_by_zsh(scratch, "''"), testing::StartsWith("run init memory "));
  EXPECT_THAT(offered_by_zsh(scratch, "show to"), HasSubstr("topology"));
  EXPECT_THAT(offered_by_zsh(scratch, "run --chak"), HasSubstr("--chakra"));
  EXPECT_EQ(offered_by_zsh(scratch, "run --engine ''"), "simgrid ideal\n");
  EXPECT_EQ(offered_by_zsh(scratch, "run scen"), "files\n");
}

// Does fish offer them, with what each is?
TEST(Pages, FishCompletesCommandsOptionsAndChoices) {
  const Scratch scratch;
  if (!have(scratch, "fish")) GTEST_SKIP() << "SKIPPED, NOT TESTED: fish's completion needs fish";
  const auto offers = [&scratch](const std::string& line) {
    const Outcome outcome = scratch.sh(
        "export HOME=$PWD\ntrainyard completion fish > t.fish\n"
        "fish --no-config -c 'source t.fish; complete -C \"trainyard " +
        line + "\"'");
    EXPECT_EQ(outcome.err, "");
    return outcome.out;
  };
  EXPECT_THAT(offers("comp"), testing::StartsWith("compare\t"));
  EXPECT_THAT(offers("show to"), testing::StartsWith("topology\t"));
  EXPECT_THAT(offers("run --chak"), testing::StartsWith("--chakra\t"));
  // Each choice on a line, in some versions of fish with the option's description.
  std::vector<std::string> engines;
  for (const std::string& line : test::lines_of(offers("run --engine ")))
    engines.push_back(line.substr(0, line.find('\t')));
  EXPECT_THAT(engines, testing::ElementsAre("ideal", "simgrid"));
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
