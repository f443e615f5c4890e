// check_schedule reports the rank, the step and the fault of an illegal list.
#include <gtest/gtest.h>

#include "models/schedules/schedule.hpp"

namespace trainyard {
namespace {

constexpr PipelineShape kShape{.stages = 2, .microbatches = 2};
constexpr ScheduleStep F0{.kind = StepKind::Forward, .microbatch = 0};
constexpr ScheduleStep F1{.kind = StepKind::Forward, .microbatch = 1};
constexpr ScheduleStep B0{.kind = StepKind::Backward, .microbatch = 0};
constexpr ScheduleStep B1{.kind = StepKind::Backward, .microbatch = 1};
constexpr ScheduleStep b0{.kind = StepKind::BackwardInput, .microbatch = 0};
constexpr ScheduleStep w0{.kind = StepKind::BackwardWeight, .microbatch = 0};

std::string complaint(const ScheduleLists& lists, const PipelineShape& shape = kShape) {
  return check_schedule(lists, shape).value_or("legal");
}

// Are legal lists accepted?
TEST(CheckSchedule, AcceptsLegalLists) {
  EXPECT_EQ(complaint({{F0, F1, B0, B1}, {F0, B0, F1, B1}}), "legal");
  EXPECT_EQ(complaint({{F0, F1, b0, w0, B1}, {F0, b0, F1, B1, w0}}), "legal");
}

// Is a fault within a rank reported?
TEST(CheckSchedule, NamesWhatIsWrongWithinARank) {
  EXPECT_EQ(complaint({{F0, F1, B0, B1}}), "there are lists for 1 ranks, but 2 stages");
  EXPECT_EQ(complaint({{F0, F1, B0, B1}, {F0, B0, F1}}), "rank 1 never does B1");
  EXPECT_EQ(complaint({{F0, F1, B0}, {F0, B0, F1, B1}}), "rank 0 never does B1");
  EXPECT_EQ(complaint({{F0, F0, F1, B0, B1}, {F0, B0, F1, B1}}),
            "rank 0 has F0 twice, at positions 0 and 1");
  EXPECT_EQ(complaint({{F0, F1, B0, B1}, {B0, F0, F1, B1}}), "rank 1 has B0 before F0");
  EXPECT_EQ(complaint({{F0, F1, B0, b0, B1}, {F0, B0, F1, B1}}),
            "rank 0 has both B0 and a part of it");
  EXPECT_EQ(complaint({{F0, F1, b0, B1}, {F0, B0, F1, B1}}), "rank 0 never does w0");
  EXPECT_EQ(complaint({{F0, F1, w0, b0, B1}, {F0, B0, F1, B1}}), "rank 0 has w0 before b0");
  const ScheduleStep outside{.kind = StepKind::Forward, .microbatch = 7};
  EXPECT_EQ(complaint({{F0, outside, B0, B1}, {F0, B0, F1, B1}}),
            "rank 0 names microbatch 7 of chunk 0 at position 1, outside the 2 microbatches and 1 "
            "chunks");
}

// Is the cycle of a deadlock reported?
TEST(CheckSchedule, NamesTheCircleOfADeadlock) {
  EXPECT_EQ(complaint({{F0, B0, F1, B1}, {F1, F0, B0, B1}}),
            "deadlock: rank 0 at B0 waits for B0 of rank 1, which is at F1; rank 1 at F1 waits for "
            "F1 of rank 0, which is at B0");
}

// Are the chunks of a deadlock reported?
TEST(CheckSchedule, NamesChunksOfADeadlock) {
  const PipelineShape shape{.stages = 2, .microbatches = 1, .chunks = 2};
  const auto step = [](StepKind kind, std::int32_t chunk) {
    return ScheduleStep{.kind = kind, .microbatch = 0, .chunk = chunk};
  };
  using enum StepKind;
  const std::vector<ScheduleStep> good = {step(Forward, 0), step(Forward, 1), step(Backward, 1),
                                          step(Backward, 0)};
  const std::vector<ScheduleStep> late = {step(Forward, 1), step(Forward, 0), step(Backward, 1),
                                          step(Backward, 0)};
  EXPECT_EQ(complaint({good, good}, shape), "legal");
  EXPECT_EQ(complaint({good, late}, shape),
            "deadlock: rank 0 at F0.1 waits for F0.0 of rank 1, which is at F0.1; rank 1 at F0.1 "
            "waits for F0.1 of rank 0, which is at F0.1");
}

// Do the ranks that hold a stage finish their stages in one order? With two directions on two
// ranks, both hold stage 0 and stage 1.
TEST(CheckReductions, HoldersComeToTheirStagesInOneOrder) {
  const PipelineShape shape{
      .stages = 2, .microbatches = 2, .chunks = 2, .placement = StagePlacement::Bidirectional};
  const auto step = [](StepKind kind, std::int32_t microbatch, std::int32_t chunk) {
    return ScheduleStep{.kind = kind, .microbatch = microbatch, .chunk = chunk};
  };
  using enum StepKind;
  const auto list = [&](std::int32_t first, std::int32_t last) {
    return std::vector<ScheduleStep>{step(Forward, 0, 0), step(Forward, 1, 1),
                                     step(Backward, first, first), step(Backward, last, last)};
  };
  const std::int64_t of_zero = stage_of(shape, {.rank = 0, .chunk = 0});
  ASSERT_NE(of_zero, stage_of(shape, {.rank = 1, .chunk = 0}));
  EXPECT_EQ(check_reductions({list(0, 1), list(1, 0)}, shape), std::nullopt);
  EXPECT_EQ(check_reductions({list(0, 1), list(0, 1)}, shape).value_or(""),
            "rank 0 has the gradients of stage 0 before those of stage 1, and rank 1, which holds "
            "both as well, the other way round: each waits for the other in their reduction");
  EXPECT_EQ(check_reductions({list(0, 1), list(0, 1)}, {.stages = 2, .microbatches = 2}),
            std::nullopt);
}

}  // namespace
}  // namespace trainyard
