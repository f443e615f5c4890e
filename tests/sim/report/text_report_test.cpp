#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/render/output_stream.hpp"
#include "sim/render/text_table.hpp"
#include "sim/report/report.hpp"
#include "sim/report/result_json.hpp"
#include "sim/report/stage_summary.hpp"
#include "tests/sim/report/small_run.hpp"

namespace trainyard {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::filesystem::path scratch(const std::string& name) {
  return std::filesystem::path(::testing::TempDir()) / ("trainyard_report_" + name);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Does the verdict come first?
TEST(Summary, VerdictComesFirst) {
  SmallRun small;
  EXPECT_THAT(summary_text(small.view()),
              StartsWith("fits: 650 B of 1000 B on the fullest stage (1); one step takes 5 s\n"));
  small.facts.gpu_memory = Bytes{640};
  EXPECT_THAT(summary_text(small.view()), StartsWith("DOES NOT FIT: 650 B of 640 B"));
}

// Are published figures next to the prediction?
TEST(Summary, PublishedFiguresAreNextToThePrediction) {
  const SmallRun small;
  const std::string text = summary_text(small.view());
  EXPECT_THAT(text, ::testing::ContainsRegex("step time +5 s +4 s +\\+25\\.0 %"));
  EXPECT_THAT(text, ::testing::ContainsRegex(
                        "MFU \\(causal attention\\) +50\\.0 % +40\\.0 % +\\+25\\.0 %"));
  EXPECT_THAT(text, ::testing::ContainsRegex("MFU \\(full attention\\) +60\\.0 %"));
  EXPECT_THAT(text, HasSubstr("published: worked by hand"));
}

// Does the summary compare the utilisation of GEMMs of narrow types with both peaks?
TEST(Summary, UtilisationIsComparedWithBothPeaksOfNarrowTypes) {
  SmallRun small;
  small.facts.peaks.push_back({"fp8", FlopsPerSecond{2e13}});
  const std::string text = summary_text(small.view());
  EXPECT_THAT(text, ::testing::ContainsRegex(
                        "MFU \\(causal attention, bf16 peak\\) +50\\.0 % +40\\.0 % +\\+25\\.0 %"));
  EXPECT_THAT(text, ::testing::ContainsRegex("MFU \\(causal attention, fp8 peak\\) +25\\.0 %"));
  EXPECT_THAT(text, ::testing::ContainsRegex("HFU \\(full attention, fp8 peak\\) +37\\.5 %"));
}

// Does the summary state the interval of the step, its largest part and a remedy?
TEST(Summary, StatesTheIntervalOfTheStep) {
  SmallRun small;
  EXPECT_THAT(summary_text(small.view()), ::testing::Not(HasSubstr("interval:")));
  small.facts.interval = StepInterval{
      .step_s = 10.0,
      .parts = {{.name = "the host", .cause = "nemo", .deviation = 0.05, .remedy = "a trace"}}};
  EXPECT_THAT(
      summary_text(small.view()),
      HasSubstr("  interval: nine of ten measured runs take 9.21 to 10.9 s; the largest part of "
                "that range comes from\n    the host (nemo); to narrow it: a trace\n"));
}

// Does the table have no published column without published figures?
TEST(Summary, HasNoPublishedColumnWithoutPublishedFigures) {
  SmallRun small;
  small.facts.published.clear();
  EXPECT_THAT(summary_text(small.view()), ::testing::Not(HasSubstr("published")));
}

// Does a note follow the published figures, and only where there are some?
TEST(Summary, ANoteBelongsToPublishedFigures) {
  SmallRun small;
  EXPECT_THAT(figures_section(small.view()), ::testing::Not(HasSubstr("note:")));
  small.facts.published_note = "without dropout";
  EXPECT_THAT(figures_section(small.view()),
              HasSubstr("  published: worked by hand\n  note: without dropout\n"));
  small.facts.published.clear();
  EXPECT_THAT(figures_section(small.view()), ::testing::Not(HasSubstr("note:")));
}

// Is the summary plain ASCII within the width?
TEST(Summary, IsAsciiWithinTheWidth) {
  SmallRun small;
  const std::string word(70, 'x');
  small.facts.approximations.front().sentence = word + " " + word + " " + word;
  small.facts.title = "a title of many words " + small.facts.title;
  for (int i = 0; i < 4; ++i) small.facts.title += " that goes on and on and on";
  for (const std::string& line : lines_of(summary_text(small.view()))) {
    EXPECT_LE(line.size(), kTextWidth) << line;
    for (const char c : line) EXPECT_TRUE(c >= ' ' && c <= '~') << line;
  }
}

// Does the widest breakdown stay narrow? Every share of the breakdown occurs in this run, so that
// its table is the widest possible.
TEST(Summary, TheWidestBreakdownStaysNarrow) {
  SmallRun small;
  small.run = HandRun(2);
  double now_s = 0.0;
  const auto next = [&now_s] { return now_s += 1.0; };
  for (std::uint16_t kind = 0; kind < 6; ++kind) {
    const auto done = small.run.collective({.ready_s = now_s,
                                            .start_s = now_s + 0.5,
                                            .end_s = now_s + 1.0,
                                            .stream = 1,
                                            .kind = static_cast<GroupKind>(kind)});
    small.run.compute({.ready_s = next(), .end_s = next(), .after = {done}});
  }
  const auto in = small.run.recv({.ready_s = now_s,
                                  .start_s = now_s + 1.0,
                                  .end_s = now_s + 1.0,
                                  .stream = 1,
                                  .kind = GroupKind::Pipeline});
  small.run.delay({.ready_s = next(), .end_s = next(), .after = {in}});
  small.run.compute({.ready_s = now_s, .end_s = next(), .work = WorkClass::Optimizer});
  small.run.timeline.makespan_s = next();
  const std::string text = find_report("breakdown")->text(small.view());
  for (const char* title :
       {"compute", "TP", "PP", "DP", "EP", "CP", "other", "waiting", "bubble", "host", "idle"}) {
    EXPECT_THAT(text, HasSubstr(title));
  }
  for (const std::string& line : lines_of(text)) EXPECT_LE(line.size(), kTextWidth) << line;
}

// Does a bare workload still have a report?
TEST(Summary, ABareWorkloadStillReports) {
  SmallRun small;
  small.facts = {};
  const std::string text = summary_text(small.view());
  EXPECT_THAT(text, StartsWith("one step takes 5 s\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("MFU")));
}

// Do a long source of published figures and a long interval wrap, and are their further lines
// indented by four letters?
TEST(Summary, ALongSourceWrapsUnderItself) {
  SmallRun small;
  std::string& source = small.facts.published_source;
  source = "a paper";
  while (source.size() < 150) source += " with a title";
  small.facts.interval =
      StepInterval{.step_s = 10.0, .parts = {{.name = source, .deviation = 0.05}}};
  const std::vector<std::string> lines = lines_of(summary_text(small.view()));
  for (const char* begin : {"  published: a paper", "  interval: nine of ten"}) {
    const auto first = std::ranges::find_if(
        lines, [&](const std::string& line) { return line.starts_with(begin); });
    ASSERT_LT(first, lines.end() - 1) << begin;
    EXPECT_THAT(*(first + 1), ::testing::MatchesRegex("    [a-z].*")) << begin;
  }
}

// Does a stage fit where the memory of its GPUs is not known?
TEST(StageMemory, FitsIfTheCapacityIsNotKnown) {
  SmallRun small;
  for (const auto& [capacity, fits] : {std::pair{0.0, true}, {649.0, false}, {650.0, true}}) {
    small.facts.gpu_memory = Bytes{capacity};
    const std::vector<StageMemory> stages = stage_memory(small.view());
    ASSERT_EQ(stages.size(), 2U);
    EXPECT_EQ(stages[1].peak.bytes, 650);
    EXPECT_EQ(stages[1].fits, fits) << capacity;
  }
}

// Is a capacity that is not known a dash in the table of memory?
TEST(StageMemory, ACapacityThatIsNotKnownIsADash) {
  SmallRun small;
  small.facts.gpu_memory = Bytes{0.0};
  const TextTable table = memory_table(small.view());
  ASSERT_EQ(table.rows().size(), 2U);
  ASSERT_EQ(table.titles()[2], "of");
  EXPECT_EQ(table.rows()[1][2], "-");
  EXPECT_EQ(table.rows()[1][3], "-");
}

// Does the section of documents name the imbalance, and that of batches the mean with its interval?
// Steps of 1 to 5 s have the mean 3 s and t(0.975, 4) sqrt(2.5 / 5) = 1.963 s beside it; balancing
// halves each of them.
TEST(TextReport, DocumentsAndBatches) {
  SmallRun small;
  EXPECT_EQ(documents_section(small.view()), "");
  EXPECT_EQ(batches_section(small.view()), "");
  small.facts.documents = DocumentFacts{.lengths = "preset web",
                                        .balance = "none",
                                        .count = 1234,
                                        .mean_tokens = 850.2,
                                        .longest_tokens = 4096,
                                        .pairs_share = 0.25,
                                        .replica_excess = 0.125,
                                        .microbatch_excess = 1.5};
  small.facts.batches = BatchTimes{.first_seed = 7,
                                   .step_s = {1, 2, 3, 4, 5},
                                   .as_drawn_s = {1, 2, 3, 4, 5},
                                   .balanced_s = {0.5, 1, 1.5, 2, 2.5},
                                   .balance = "documents"};
  EXPECT_THAT(documents_section(small.view()),
              testing::AllOf(
                  HasSubstr("1 234 of 850.2 tokens in the mean, the longest of 4096 (preset web"),
                  HasSubstr("+12.5 %"), HasSubstr("+150.0 %")));
  EXPECT_THAT(
      batches_section(small.view()),
      testing::AllOf(HasSubstr("Over 5 batches (seeds 7 to 11)"), HasSubstr("1.037 s to 4.963 s"),
                     HasSubstr("balanced (documents)"), HasSubstr("50.0 % to 50.0 %")));
  const auto json = batches_json(small.view());
  EXPECT_EQ(json["saving"]["mean"], 0.5);
  EXPECT_EQ(json["step_time_s"]["mean"], 3.0);
}

// An exchange of 50 s every 10 steps adds 5 s to each.
TEST(LocalSteps, TheMeanStepContainsAPartOfTheExchange) {
  SmallRun small;
  EXPECT_EQ(local_steps_section(small.view()), "");
  EXPECT_TRUE(local_steps_json(small.view()).is_null());
  const double alone_s = small.view().step_s();
  small.facts.local_steps = LocalStepsFacts{.every = 10,
                                            .workers = 3,
                                            .exchange_s = 50.0,
                                            .exchange_bytes = 4'000'000,
                                            .state_bytes = 8'000'000};
  EXPECT_DOUBLE_EQ(small.view().step_s(), alone_s + 5.0);
  EXPECT_DOUBLE_EQ(small.view().breakdown_of(0).total(), alone_s + 5.0);
  const auto json = local_steps_json(small.view());
  EXPECT_DOUBLE_EQ(json["inner_step_time_s"], alone_s);
  EXPECT_EQ(json["outer_state_bytes"], 8'000'000);
  EXPECT_THAT(local_steps_section(small.view()),
              testing::AllOf(HasSubstr("3, an exchange every 10 steps"), HasSubstr("takes 50 s")));
}

// Does every report have text?
TEST(Registry, EveryReportHasText) {
  SmallRun small;
  small.facts.documents = DocumentFacts{};
  small.facts.local_steps = LocalStepsFacts{};
  PowerRates power;
  power.gpus.resize(small.run.workload.programs.size(),
                    {.idle_w = 100, .waiting_w = 200, .limit_w = 700});
  power.kernel_w.resize(small.run.workload.kernels.size(), 500);
  power.compute_bound.resize(small.run.workload.kernels.size(), true);
  RunView view = small.view();
  view.power = &power;
  std::size_t tables = 0;
  for (const ReportEntry& report : reports()) {
    EXPECT_FALSE(report.summary.empty());
    EXPECT_EQ(find_report(report.name), &report);
    EXPECT_FALSE(report.text(view).empty()) << report.name;
    EXPECT_FALSE(report.json(view).empty()) << report.name;
    if (report.csv == nullptr) continue;
    EXPECT_GE(lines_of(report.csv(view)).size(), 2U) << report.name;
    ++tables;
  }
  EXPECT_GE(tables, 5U);
  EXPECT_EQ(find_report("no such report"), nullptr);
}

// Does the table align its columns?
TEST(TextTable, AlignsColumns) {
  TextTable table({"a", "bb"});
  table.row({"long", "1"});
  table.row({"x", "222"});
  EXPECT_EQ(table.text(), "  a      bb\n  long    1\n  x     222\n");
}

// Does the text wrap at the width with its indent?
TEST(TextTable, WrapsAtTheWidthAndKeepsTheIndent) {
  const std::string text = wrapped("  - " + std::string(60, 'a') + " " + std::string(60, 'b'), 4);
  EXPECT_EQ(text, "  - " + std::string(60, 'a') + "\n    " + std::string(60, 'b') + "\n");
}

// Are the rows of the CSV tidy?
TEST(Csv, RowsAreTidy) {
  const SmallRun small;
  const auto lines = lines_of(breakdown_csv(small.view()));
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[0], StartsWith("class,program,stage,representative,ranks,compute,optimizer"));
  EXPECT_THAT(lines[1], StartsWith("0,stage 0,0,0,1,2.0,0.25,"));
  EXPECT_EQ(lines_of(memory_csv(small.view()))[1], "0,0,weights,500,600,1000,1.0,true");
}

// Does the directory hold the spans in the terms of Nsight?
TEST(Csv, DirectoryHoldsTheSpansInTheTermsOfNsight) {
  SmallRun small;
  small.run.workload.names[4] = "adam, \"fused\"";
  const auto directory = scratch("csv");
  write_csv_directory(small.view(), directory);
  for (const char* name :
       {"breakdown.csv", "memory.csv", "links.csv", "collectives.csv", "critical_path.csv"}) {
    EXPECT_TRUE(std::filesystem::exists(directory / name)) << name;
  }
  const auto lines = lines_of(read_file(directory / "spans.csv"));
  ASSERT_EQ(lines.size(), 1U + 6U + 6U);
  EXPECT_EQ(
      lines[0],
      "start,end,ready,deviceId,streamId,correlationId,name,rank,class,kind,microbatch,layer");
  EXPECT_EQ(lines[1], "0,1000000000,0,0,0,1,forward,0,0,compute,0,-1");
  EXPECT_THAT(lines[6], HasSubstr(",\"adam, \"\"fused\"\"\","));
  std::filesystem::remove_all(directory);
}

// Does the stream compress by the file's name and leave no partial file?
TEST(OutputStream, CompressesByNameAndLeavesNothingHalfWritten) {
  const auto file = scratch("stream") / "deep" / "out.txt.gz";
  {
    OutputStream dropped(file);
    dropped.print("{}", 1);
  }
  EXPECT_TRUE(std::filesystem::is_empty(file.parent_path()));
  OutputStream out(file);
  for (int i = 0; i < 50000; ++i) out.print("{} ", i % 10);
  out.close();
  EXPECT_EQ(read_file(file).size(), 100000U);
  EXPECT_LT(std::filesystem::file_size(file), 5000U);
  std::filesystem::remove_all(scratch("stream"));
}

// Is a path that cannot be written an InputError?
TEST(OutputStream, APathThatCannotBeWrittenIsAnInputError) {
  EXPECT_THROW(OutputStream("/dev/null/no/trace.json"), InputError);
}

}  // namespace
}  // namespace trainyard
