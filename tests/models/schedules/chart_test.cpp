#include <gtest/gtest.h>

#include <sstream>

#include "models/schedules/schedule.hpp"

namespace trainyard {
namespace {

PlayedSchedule played(const std::string& name, const PipelineShape& shape) {
  const auto stages = static_cast<std::size_t>(shape.stages);
  return play_schedule(all_steps(*find_schedule(name), shape), shape,
                       {.forward_s = std::vector<double>(stages, 1.0),
                        .backward_s = std::vector<double>(stages, 2.0),
                        .weight_s = {}});
}

// Is a schedule of one chunk drawn with F and B?
TEST(Chart, OneChunk) {
  const PipelineShape shape{.stages = 2, .microbatches = 3};
  EXPECT_EQ(schedule_chart(played("1f1b", shape), shape, 100),
            "rank 0 |F0F1....B0==F2B1==..B2==\n"
            "rank 1 |..F0B0==F1B1==F2B2==....\n"
            "F forward, B backward; the number is the microbatch, dots are bubbles\n");
}

// Are several chunks drawn as letters?
TEST(Chart, ChunksAreLetters) {
  const PipelineShape shape{.stages = 2, .microbatches = 2, .chunks = 2};
  EXPECT_EQ(schedule_chart(played("interleaved_1f1b", shape), shape, 100),
            "rank 0 |A0A1B0B1....b0==..b1==a0==a1==\n"
            "rank 1 |..A0A1B0b0==B1b1==a0==a1==....\n"
            "letter: chunk (A first), capital forward, small backward; the number is the "
            "microbatch, dots are bubbles\n");
}

// Does the chart fit the requested width?
TEST(Chart, FitsTheWidth) {
  const PipelineShape shape{.stages = 16, .microbatches = 256};
  std::istringstream rows(schedule_chart(played("1f1b", shape), shape, 120));
  std::string row;
  for (int rank = 0; rank < 16; ++rank) {
    std::getline(rows, row);
    EXPECT_EQ(row.size(), 120U);
  }
}

// Does the table contain makespan, busy time, bubble and activations?
TEST(Chart, Table) {
  const PipelineShape shape{.stages = 2, .microbatches = 4, .chunks = 2};
  EXPECT_EQ(schedule_table(played("interleaved_1f1b", shape), shape),
            "makespan 13.5\n"
            "  rank         busy       bubble  bubble %   activations held\n"
            "     0           12          1.5     11.11                2.5\n"
            "     1           12          1.5     11.11                1.5\n");
}

}  // namespace
}  // namespace trainyard
