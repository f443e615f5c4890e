// Plays schedules with times that a test chooses.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/schedules/generators.hpp"
#include "models/schedules/schedule.hpp"

namespace trainyard::test {

// The letters F, B and W of a list, without microbatches.
inline std::string letters(const std::vector<ScheduleStep>& list) {
  std::string text;
  for (const ScheduleStep& step : list) {
    constexpr std::array kLetters = {'F', 'B', 'B', 'W'};
    text += kLetters[static_cast<std::size_t>(step.kind)];
  }
  return text;
}

// Plays a schedule with the given time of each step of one chunk, 1 by default.
inline PlayedSchedule play_costs(const std::string& name, PipelineShape shape,
                                 const StepCosts& costs = {}, double overlapped_share = 1.0) {
  const Schedule* schedule = find_schedule(name);
  EXPECT_NE(schedule, nullptr) << name;
  shape.costs = costs;
  shape = placed(*schedule, shape);
  const ScheduleLists lists = all_steps(*schedule, shape);
  EXPECT_EQ(check_schedule(lists, shape), std::nullopt) << name;
  StepDurations durations = durations_of(shape);
  durations.overlapped_share = overlapped_share;
  return play_schedule(lists, shape, durations);
}

}  // namespace trainyard::test
