#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/render/views/views.hpp"
#include "tests/sim/workload/hand_workload.hpp"

namespace trainyard {
namespace {

using namespace test;
using testing::HasSubstr;

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

// Does the graph hold operations, streams and dependencies?
TEST(WorkloadDot, DrawsOperationsStreamsAndDependencies) {
  const Workload workload = training_step({.data = 2, .microbatches = 1});
  const std::string dot = to_dot(workload, {});
  // The program has a forward and a backward on the compute stream, then a reduction after the
  // backward.
  EXPECT_EQ(count(dot, "[label="), 3U);
  EXPECT_THAT(dot, HasSubstr("0->1 [style=\"solid\"]"));
  EXPECT_THAT(dot, HasSubstr("1->2 [style=\"dashed\"]"));
  EXPECT_THAT(dot, HasSubstr("label=\"stage 0 2 all_reduce\\ncollective on data"));
  EXPECT_EQ(count(dot, "dotted"), 0U);
}

// Does the graph join sends to receives?
TEST(WorkloadDot, JoinsSendsToReceives) {
  const Workload workload = training_step({.stages = 2, .microbatches = 1});
  const std::string dot = to_dot(workload, {});
  // Stage 0: forward, send, recv, backward are 0 to 3; stage 1: recv, forward, backward, send are 4
  // to 7.
  EXPECT_EQ(count(dot, "dotted"), 2U);
  EXPECT_THAT(dot, HasSubstr("1->4 [style=\"dotted\"]"));
  EXPECT_THAT(dot, HasSubstr("7->2 [style=\"dotted\"]"));
}

// Can one program be drawn alone?
TEST(WorkloadDot, DrawsOneProgramOnRequest) {
  const Workload workload = training_step({.stages = 2, .microbatches = 1});
  const std::string dot = to_dot(workload, {.program = 1});
  EXPECT_EQ(count(dot, "[label="), 4U);
  EXPECT_EQ(count(dot, "stage 0"), 0U);
}

// Does the graph report the operations that it leaves out?
TEST(WorkloadDot, SaysWhatItLeavesOut) {
  const Workload workload = training_step({.stages = 2, .microbatches = 50});
  const std::string dot = to_dot(workload, {.program = {}, .most_operations = 20});
  EXPECT_EQ(count(dot, "shape=\"box\""), 20U);
  EXPECT_THAT(dot, HasSubstr("stage 0: 190 more operations not drawn"));
}

// Are names quoted?
TEST(WorkloadDot, QuotesNames) {
  Workload workload = training_step({.microbatches = 1});
  workload.programs[0].name = "a \"b\"";
  EXPECT_THAT(to_dot(workload, {}), HasSubstr("label=\"a \\\"b\\\" 0"));
}

}  // namespace
}  // namespace trainyard
