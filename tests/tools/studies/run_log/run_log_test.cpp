// Logs of each format are read as their programs write them, and a line that is wrong is refused
// with its number and a remedy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.hpp"
#include "tests/tools/studies/run_log/log_files.hpp"
#include "tools/studies/run_log/timestamp.hpp"

namespace trainyard {
namespace {

using test::log_of;
using testing::HasSubstr;
using testing::StartsWith;

// 2026-03-01 is day 20 513 since 1970: 20513 x 86400 = 1 772 323 200.
TEST(Timestamp, ReadsDatesAndSeconds) {
  constexpr double kDay = 1772323200.0;
  EXPECT_DOUBLE_EQ(timestamp("2026-03-01")->seconds, kDay);
  EXPECT_DOUBLE_EQ(timestamp("2026-03-01T12:00:00Z")->seconds, kDay + 43200);
  EXPECT_DOUBLE_EQ(timestamp("2026-03-01 12:00:00.250")->seconds, kDay + 43200.25);
  EXPECT_DOUBLE_EQ(timestamp("2026-03-01T12:00:00+02:00")->seconds, kDay + 36000);
  EXPECT_DOUBLE_EQ(timestamp("2026-03-01T12:00:00-0530")->seconds, kDay + 63000);
  EXPECT_TRUE(timestamp("2026-03-01")->dated);
  EXPECT_DOUBLE_EQ(timestamp("86400.5")->seconds, 86400.5);
  EXPECT_FALSE(timestamp("86400.5")->dated);
  for (const char* wrong : {"", "yesterday", "2026-02-30", "2026-03-01T25:00", "12:00", "nan",
                            "2026-03-01T12:00:00X", "2026-3-1"})
    EXPECT_FALSE(timestamp(wrong)) << wrong;
  EXPECT_EQ(date_text(kDay + 43260), "2026-03-01 12:01 UTC");
}

TEST(RunLog, ReadsCsv) {
  const RunLog log = log_of(
      "# title: A run\n# nodes: 4\n# tokens_per_step: 1e6\n# anything else\n"
      "time,event,step,cause,node,duration_s\n"
      "2026-03-01T00:00:00Z,step,0,,,\n"
      "2026-03-01T00:10:00Z,checkpoint,10,,,30\n"
      "2026-03-01T00:20:00Z,failure,,GPU,n7,\n"
      "2026-03-01T00:20:00Z,detection,,,,60\n"
      "2026-03-01T01:20:00Z,repaired,,,n7,\n"
      "2026-03-01T01:00:00Z,step,10,,,\n");
  EXPECT_EQ(log.format, "CSV of steps and interruptions");
  EXPECT_EQ(log.title, "A run");
  EXPECT_EQ(log.nodes, 4);
  EXPECT_DOUBLE_EQ(log.tokens_per_step, 1e6);
  EXPECT_DOUBLE_EQ(log.wall_s(), 3600);
  ASSERT_EQ(log.marks.size(), 3U);
  EXPECT_DOUBLE_EQ(log.marks[2].steps, 10);
  ASSERT_EQ(log.interruptions.size(), 1U);
  EXPECT_EQ(log.interruptions[0].cause, "GPU");
  EXPECT_EQ(log.interruptions[0].node, "n7");
  ASSERT_EQ(log.spans.size(), 2U);
  EXPECT_EQ(log.spans[1].phase, RunPhase::Detect);
  EXPECT_THAT(log.repairs_s, testing::ElementsAre(3600.0));
}

// Are spaces and quotes around the columns read over, as in the rows?
TEST(RunLog, ReadsAHeaderWithSpacesAndQuotes) {
  const RunLog log = log_of("time, event, \"step\",\n0,step,0,\n60, step, 6,\n");
  ASSERT_EQ(log.marks.size(), 2U);
  EXPECT_DOUBLE_EQ(log.marks[1].steps, 6);
}

// Steps 0 to 2, then a start without an end of the job, from step 1 on.
const std::string kCloudEntries =
    R"({"jsonPayload": {"job_name": "j", "job_start_time": 1000}, "timestamp": "t"}
{"jsonPayload": {"job_name": "j", "tpu_init_start_time": 1000}}
{"jsonPayload": {"job_name": "j", "tpu_init_end_time": 1060}}
{"jsonPayload": {"job_name": "j", "step_count": 0, "step_start_time": 1100.0}}
{"jsonPayload": {"job_name": "j", "step_count": 1, "step_start_time": 1110.0}}
{"jsonPayload": {"step": 1, "event_type": "save", )"
    R"("checkpoint_manager_blocking_start_time": 1110.0, )"
    R"("checkpoint_manager_blocking_duration_secs": 2.0}}
{"jsonPayload": {"job_name": "j", "step_count": 2, "step_start_time": 1120.0}}
{"jsonPayload": {"job_name": "j", "job_start_time": 1500}}
{"jsonPayload": {"job_name": "j", "custom_badput_event_type": "eval", )"
    R"("custom_badput_event_start_time": 1501}}
{"jsonPayload": {"job_name": "j", "custom_badput_event_type": "eval", )"
    R"("custom_badput_event_end_time": 1511}}
{"jsonPayload": {"job_name": "j", "step_count": 1, "step_start_time": 1600.0}}
{"jsonPayload": {"job_name": "j", "step_count": 2, "step_start_time": 1610.0}}
{"jsonPayload": {"job_name": "j", "job_end_time": 1620.0}}
)";

TEST(RunLog, ReadsEntriesOfMlGoodputMeasurement) {
  const RunLog log = log_of(kCloudEntries);
  EXPECT_THAT(log.format, HasSubstr("ml-goodput-measurement"));
  EXPECT_TRUE(log.dated);
  EXPECT_DOUBLE_EQ(log.wall_s(), 620);
  EXPECT_EQ(log.marks.size(), 6U);  // five starts, and the end of the last step with the job
  EXPECT_DOUBLE_EQ(log.marks.back().steps, 3);
  ASSERT_EQ(log.interruptions.size(), 1U);
  EXPECT_DOUBLE_EQ(log.interruptions[0].time_s, 1120);
  EXPECT_EQ(log.interruptions[0].kind, FailureKind::Fatal);
  ASSERT_EQ(log.spans.size(), 3U);
  EXPECT_EQ(log.spans[0].phase, RunPhase::CommunicatorInit);
  EXPECT_EQ(log.spans[1].phase, RunPhase::Checkpoint);
  EXPECT_EQ(log.spans[2].name, "eval");
}

// An array of bare payloads, as a script exports them, is the same log.
TEST(RunLog, ReadsAnArrayOfEntriesToo) {
  std::string array = "[";
  for (const char* entry :
       {R"({"job_start_time": 0})", R"({"step_count": 5, "step_start_time": 10})",
        R"({"step_count": 6, "step_start_time": 20})", R"({"job_end_time": 30})"})
    array += std::string(array.size() > 1 ? ", " : "") + entry;
  const RunLog log = log_of(array + "]");
  EXPECT_EQ(log.marks.size(), 3U);
  EXPECT_TRUE(log.interruptions.empty());
  EXPECT_DOUBLE_EQ(log.wall_s(), 30);
}

// Two nodes write the events of one restart; the first failure and the last start count.
// Are words of another type, payloads of text and bare numbers entries of other programs?
TEST(RunLog, CountsEntriesOfOtherPrograms) {
  const RunLog log = log_of(
      R"([{"job_name": "a", "job_start_time": 1000.0}, {"job_name": "a", "event_type": 5}, 7,
          {"jsonPayload": "text"}, {"custom_badput_event_type": null, "job_name": 3},
          {"job_name": "a", "step_start_time": 1010.0, "step_count": 0}])");
  EXPECT_EQ(log.marks.size(), 1U);
  EXPECT_DOUBLE_EQ(log.wall_s(), 10);
  EXPECT_THAT(log.notes, testing::ElementsAre("4 entries have none of the known keys"));
}

// A custom event without a type has the name of all such events.
TEST(RunLog, NamesACustomEventWithoutAType) {
  const RunLog log = log_of(
      R"([{"custom_badput_event_type": null, "custom_badput_event_start_time": 10},
          {"custom_badput_event_type": 4, "custom_badput_event_end_time": 30}])");
  ASSERT_EQ(log.spans.size(), 1U);
  EXPECT_EQ(log.spans[0].name, "custom event");
}

TEST(RunLog, ReadsTheResiliencyExtension) {
  const auto line = [](int cycle, const char* event, const char* node, const char* time) {
    return fmt::format(
        "2026-03-01 10:00:00 [INFO] [n1] profiling.py:80   - Cycle: {} Event: {} Node: {} Rank: 0 "
        "Time: 2026-03-01 {} UTC\n",
        cycle, event, node, time);
  };
  const RunLog log =
      log_of("some line of the training\n" + line(0, "worker_start_started", "n1", "10:00:00.000") +
             line(0, "worker_start_completed", "n1", "10:00:30.000") +
             line(1, "failure_detected", "n2", "12:00:00.500") +
             line(1, "failure_detected", "n1", "12:00:01.000") +
             line(1, "worker_terminated", "n1", "12:00:10.500") +
             line(1, "rendezvous_started", "n1", "12:00:11.000") +
             line(1, "rendezvous_completed", "n1", "12:00:41.000") +
             line(1, "worker_start_started", "n1", "12:00:42.000") +
             line(1, "worker_start_completed", "n2", "12:01:02.000"));
  EXPECT_THAT(log.format, HasSubstr("resiliency"));
  EXPECT_EQ(log.nodes, 2);
  ASSERT_EQ(log.interruptions.size(), 1U);
  EXPECT_EQ(log.interruptions[0].node, "n2");
  EXPECT_EQ(log.resumed_s.size(), 2U);
  ASSERT_EQ(log.spans.size(), 4U);
  EXPECT_EQ(log.spans[2].phase, RunPhase::Replace);
  EXPECT_DOUBLE_EQ(log.spans[2].end_s - log.spans[2].begin_s, 30);
  EXPECT_DOUBLE_EQ(log.wall_s(), 7262);
}

const std::string kSlurmHeader = "JobID|JobName|Start|End|Elapsed|State|NNodes|FailedNode\n";

TEST(RunLog, ReadsSlurmsTable) {
  const RunLog log = log_of(
      kSlurmHeader +
      "12|gpt|2026-03-01T00:00:00|2026-03-01T10:00:00|10:00:00|NODE_FAIL|16|n3\n"
      "12.batch||2026-03-01T00:00:00|2026-03-01T10:00:00|10:00:00|CANCELLED||\n"
      "12|gpt|2026-03-01T11:00:00|2026-03-02T00:00:00|13:00:00|CANCELLED by 1000|16|None assigned\n"
      "13|gpt|2026-03-02T00:00:00|Unknown|1-02:00:00|RUNNING|16|\n");
  EXPECT_THAT(log.format, HasSubstr("sacct"));
  EXPECT_EQ(log.nodes, 16);
  EXPECT_DOUBLE_EQ(log.wall_s(), 2 * 86400 + 7200);
  ASSERT_EQ(log.interruptions.size(), 2U);
  EXPECT_EQ(log.interruptions[0].cause, "node failure");
  EXPECT_EQ(log.interruptions[0].node, "n3");
  EXPECT_EQ(log.interruptions[1].kind, FailureKind::Planned);
  ASSERT_EQ(log.spans.size(), 1U);
  EXPECT_EQ(log.spans[0].phase, RunPhase::Queue);
  EXPECT_DOUBLE_EQ(log.spans[0].end_s - log.spans[0].begin_s, 3600);
}

// A count of steps that falls is an interruption.
TEST(RunLog, FindsInterruptionsThatNobodyWroteDown) {
  const RunLog log = log_of("time,event,step\n0,step,0\n100,step,10\n300,step,5\n400,step,15\n");
  ASSERT_EQ(log.interruptions.size(), 1U);
  EXPECT_DOUBLE_EQ(log.interruptions[0].time_s, 100);
  EXPECT_EQ(log.interruptions[0].cause, "not stated");
  EXPECT_THAT(log.notes.at(0), HasSubstr("falls 1 times"));
}

struct Malformed {
  const char* text;
  const char* problem;  // after the name of the file
};

class MalformedLog : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedLog, IsRefusedWithItsLine) {
  const std::string file = test::log_file_of(GetParam().text);
  try {
    (void)read_run_log(file);
    FAIL() << "was read: " << GetParam().text;
  } catch (const InputError& error) {
    ASSERT_EQ(error.problems().size(), 1U);
    EXPECT_FALSE(error.problems()[0].hint.empty());
    EXPECT_THAT(error.what(), StartsWith(file + ": " + GetParam().problem));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, MalformedLog,
    testing::Values(
        Malformed{"nothing of the kind\n", "is no log that is known here"},
        Malformed{"", "is no log that is known here"},
        Malformed{"time,event,stepp\n0,step,0\n", "line 1 has the column \"stepp\""},
        Malformed{"time,event,step\n0,stpe,0\n", "line 2 has the event \"stpe\""},
        Malformed{"time,event,step\n0,step,\n", "line 2 has no step for the event step"},
        Malformed{"time,event,step\n0,step,-4\n", "line 2 has step -4, which is negative"},
        Malformed{"time,event,step\nnoon,step,0\n", "line 2 has the time \"noon\""},
        Malformed{"time,event,step\n0,step,0\n2026-03-01,step,3\n",
                  "line 3 has the time \"2026-03-01\", and lines before it have seconds"},
        Malformed{"time,event,duration_s\n0,load,\n", "line 2 has no duration_s"},
        Malformed{"time,event,node\n0,repaired,n1\n", "line 2 repairs the node \"n1\""},
        Malformed{"# node: 4\ntime,event,step\n0,step,0\n", "line 1 has the comment \"node:\""},
        Malformed{"# nodes: few\ntime,event,step\n0,step,0\n", "line 1 has nodes \"few\""},
        Malformed{"time,event,step\n0,step,0\n", "holds no two events at different times"},
        Malformed{"{\"job_start_time\": 1}\nnot json\n", "line 2 is no JSON object"},
        Malformed{"{\"step_start_time\": 1}\n", "line 1 has no step_count"},
        Malformed{"{\"job_start_time\": \"noon\"}\n", "line 1 has job_start_time \"noon\""},
        Malformed{"[{\"job_name\": \"a\"}, {\"job_name\": \"b\"}]",
                  "holds entries of 2 jobs: a and b"},
        Malformed{"Cycle: x Event: failure_detected Node: n Rank: 0 Time: 2026-03-01 00:00:00 UTC",
                  "line 1 has an event without a valid cycle"},
        Malformed{"Cycle: 0 Event: failure_detected Node: n Rank: 0 Time: noon UTC",
                  "line 1 has an event without a valid time"},
        Malformed{"JobID|Start|State\n1|2026-03-01|RUNNING\n", "line 1 has no column End"},
        Malformed{"JobID|Start|End|State\n1|2026-03-01|2026-03-02\n",
                  "line 2 has 3 fields, the header has 4"},
        Malformed{"JobID|Start|End|State\n1|2026-03-01|2026-03-02|SLEEPING\n",
                  "line 2 has the State \"SLEEPING\""},
        Malformed{"JobID|Start|End|State\n1|2026-03-01|Unknown|RUNNING\n",
                  "line 2 has job 1, which still runs"},
        Malformed{"JobID|Start|End|State\n1|2026-03-01|2026-03-03|FAILED\n"
                  "2|2026-03-02|2026-03-04|FAILED\n",
                  "line 3 has job 2, which ran at the same time as job 1"}));

}  // namespace
}  // namespace trainyard
