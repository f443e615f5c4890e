// A schedule from a user's file: the syntax, and the errors for faults in it.
#include <gtest/gtest.h>

#include "models/schedules/schedule.hpp"
#include "sim/base/error.hpp"
#include "tests/models/schedules/play.hpp"

namespace trainyard {
namespace {

using namespace test;

std::string refusal(std::string_view json) {
  try {
    (void)parse_schedule("own.json", json);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

// Does the reader accept the documented syntax?
TEST(ScheduleFile, ReadsWhatIsDocumented) {
  const auto own = parse_schedule("own.json", R"({
    "description": "two ranks",  // comments are fine
    "ranks": ["F0 F1 B0 W0 B1 W1", "F0 b0 F1 B1 w0"]
  })");
  const PipelineShape shape{.stages = 2, .microbatches = 2};
  EXPECT_EQ(own->refusal(shape), std::nullopt);
  const ScheduleLists lists = all_steps(*own, shape);
  EXPECT_EQ(lists[0][2].kind, StepKind::BackwardInput) << "its W has a step of its own";
  EXPECT_EQ(lists[1][3].kind, StepKind::Backward);
  EXPECT_EQ(letters(lists[1]), "FBFBW");
}

// Is every schedule of the registry the same after writing and reading it?
TEST(ScheduleFile, HoldsEveryScheduleOfTheRegistry) {
  for (const Schedule* schedule : schedules()) {
    const PipelineShape shape =
        placed(*schedule, {.stages = 4, .microbatches = 8, .chunks = schedule->usual_chunks()});
    const ScheduleLists lists = all_steps(*schedule, shape);
    const auto own = parse_schedule("own.json", schedule_json(lists, shape));
    EXPECT_EQ(own->placement(), schedule->placement());
    EXPECT_EQ(all_steps(*own, shape), lists) << schedule->name();
  }
}

// Does an error describe the fault?
TEST(ScheduleFile, NamesTheFault) {
  EXPECT_EQ(refusal(R"({"ranks": ["F0 B0", "F0 X0"]})"),
            "own.json: /ranks/1: rank 1 has \"X0\" at position 1, which is no step (a step is F3, "
            "B3, b3 or W3, with several chunks F3.1, overlapped F3&B1)");
  EXPECT_EQ(refusal(R"({"ranks": ["F0 F1 B0 B1", "F0 B0 F1"]})"),
            "own.json: /ranks: rank 1 never does B1 (`trainyard schedule 1f1b` shows a legal "
            "order)");
  EXPECT_EQ(refusal(R"({"ranks": ["F0 B0 F1 B1", "F1 F0 B0 B1"]})"),
            "own.json: /ranks: deadlock: rank 0 at B0 waits for B0 of rank 1, which is at F1; rank "
            "1 at F1 waits for F1 of rank 0, which is at B0 (`trainyard schedule 1f1b` shows a "
            "legal order)");
  EXPECT_EQ(refusal(R"({"ranks": ["F0 F1 B0 B1", "F0 F1 B1 B0"]})"),
            "own.json: /ranks: rank 1 sends the gradient of microbatch 1 to rank 0, which expects "
            "microbatch 0 first; both must run them in one order (`trainyard schedule 1f1b` shows "
            "a legal order)");
  EXPECT_EQ(
      refusal(R"({"placement": "vee", "ranks": ["F0 B0"]})"),
      "own.json: /placement: vee has 2 chunks per rank, but the steps name 1 (write the chunk "
      "behind the dot: F0.0 and F0.1)");
  EXPECT_NE(refusal(R"({"ranks": []})").find("there is no rank"), std::string::npos);
  EXPECT_NE(refusal(R"({"rank": ["F0 B0"]})").find("did you mean"), std::string::npos);
  EXPECT_NE(refusal(R"({"ranks": ["F0&B0"]})").find("rank 0 overlaps F0"), std::string::npos);
}

// Are more than 65 536 microbatches, and more than 64 chunks, no steps? They count from 0.
TEST(ScheduleFile, LimitsMicrobatchesAndChunks) {
  for (const std::string last : {"F65535", "F0.63"})
    EXPECT_EQ(refusal(R"({"ranks": ["F0 B0 )" + last + R"("]})").find("which is no step"),
              std::string::npos)
        << last;
  for (const std::string beyond : {"F65536", "F0.64"})
    EXPECT_NE(refusal(R"({"ranks": ["F0 B0 )" + beyond + R"("]})")
                  .find("\"" + beyond + "\" at position 2, which is no step"),
              std::string::npos)
        << beyond;
}

// Are other shapes than that of the file refused?
TEST(ScheduleFile, RefusesOtherShapes) {
  const auto own = parse_schedule("own.json", R"({"ranks": ["F0 B0"]})");
  EXPECT_EQ(*own->refusal({.stages = 2, .microbatches = 4}),
            "own.json is written for 1 ranks, 1 microbatches and 1 chunks, not for 2, 4 and 1");
}

// Is a file with many ranks checked quickly? The backward of the last rank comes first: a pass over
// all ranks for each step would take 10^10 steps, which is minutes.
TEST(ScheduleFile, ManyRanksAreChecked) {
  constexpr int kRanks = 100'000;
  std::string json = "{\"ranks\": [\"F0 B0\"";
  for (int rank = 1; rank < kRanks; ++rank) json += ", \"F0 B0\"";
  const auto own = parse_schedule("own.json", json + "]}");
  EXPECT_EQ(own->refusal({.stages = kRanks, .microbatches = 1}), std::nullopt);
}

}  // namespace
}  // namespace trainyard
