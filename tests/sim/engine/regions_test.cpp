// Contracted regions: the operations of a region, and the times at which its pieces end.
#include "sim/engine/regions.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "builders.hpp"
#include "sim/base/random.hpp"
#include "sim/engine/engine_programs.hpp"
#include "sim/engine/region_times.hpp"
#include "tests/sim/workload/in_blocks.hpp"

namespace trainyard::test {
namespace {

// Messages (slot 1) may not be part of a region, all other operations may.
MayJoin joinable(const Program& program) {
  return [&](OpIndex op) {
    const OpKind kind = program.operations[op].kind;
    return kind != OpKind::Send && kind != OpKind::Recv;
  };
}

// A microbatch of a stage: a receive, two kernels with a collective concurrent with the second, a
// kernel that waits for both, and the message to the next stage.
void add_microbatch(Script& script, std::uint32_t program, std::uint32_t call) {
  const OpIndex received =
      script.communicate(program, OpKind::Recv, 1, call, {.stream = 2, .after = {}});
  const OpIndex first = script.compute(program, 1.0, {.stream = 0, .after = {received}});
  const OpIndex reduced =
      script.communicate(program, OpKind::Collective, 0, call, {.stream = 1, .after = {first}});
  script.compute(program, 2.0);
  const OpIndex last = script.compute(program, 1.0, {.stream = 0, .after = {reduced}});
  script.communicate(program, OpKind::Send, 2, call, {.stream = 2, .after = {last}});
}

// Do equal microbatches share one shape?
TEST(Regions, EqualMicrobatchesShareOneShape) {
  Script script({1e9, 1e9});
  const auto call = script.call(CollectiveOp::AllReduce, {});
  const auto program = script.program("stage");
  for (int microbatch = 0; microbatch < 3; ++microbatch) add_microbatch(script, program, call);
  Program& written = script.workload().programs[program];
  for (Operation& op : written.operations.edit()) op.payload = 0;  // equal kernels
  const ProgramRegions found = find_regions(written, joinable(written), ProgramOrder(written));
  EXPECT_EQ(found.regions, 3U);
  ASSERT_EQ(found.shapes.size(), 1U);
  const RegionShape& shape = found.shapes[0];
  ASSERT_EQ(shape.pieces.size(), 4U);
  EXPECT_EQ(shape.pieces[3].offset, 3U);
  EXPECT_EQ(shape.pieces[3].waits_for, 2U);
  EXPECT_TRUE(shape.pieces[3].seen);   // the message waits for it
  EXPECT_FALSE(shape.pieces[1].seen);  // the next collective is in a region itself
  EXPECT_EQ(found.shape_of(0), kAlone);
  EXPECT_EQ(found.shape_of(1), 0U);
  EXPECT_EQ(found.shape_of(4), kInsideRegion);
}

// Are the regions of programs with the same operations found once, as long as the same collectives
// may join? Where it may not join, a region of two kernels replaces that of four members.
TEST(EnginePrograms, ProgramsOfATemplateShareTheirRegions) {
  Script script({1e9, 1e9});
  const auto call = script.call(CollectiveOp::AllReduce, {});
  const auto program = script.program("stage");
  add_microbatch(script, program, call);
  Workload& workload = script.workload();
  workload.programs.push_back(workload.programs[program]);
  const std::uint32_t copy = program + 1;
  const ProgramAnalysis analysis(workload);
  EnginePrograms known(workload, analysis);
  ASSERT_EQ(known.calls(program).collectives().size(), 1U);
  const auto first = known.contracted({{.program = program, .joinable = {true}}});
  ASSERT_EQ(first[0]->regions.shapes.size(), 1U);
  EXPECT_EQ(first[0]->regions.shapes[0].pieces.size(), 4U);
  EXPECT_EQ(known.contracted({{.program = program, .joinable = {true}}}), first);
  EXPECT_EQ(known.contracted({{.program = copy, .joinable = {true}}}), first);
  const auto alone = known.contracted({{.program = copy, .joinable = {false}}});
  ASSERT_EQ(alone[0]->regions.shapes.size(), 1U);
  EXPECT_EQ(alone[0]->regions.shapes[0].pieces.size(), 2U);
}

// Does a region end where an outside operation is awaited? The second kernel waits for a message
// that may come late: a region begins with it.
TEST(Regions, EndWhereSomethingOutsideIsAwaited) {
  Script script({1e9, 1e9});
  const auto call = script.call(CollectiveOp::AllReduce, {});
  const auto program = script.program("stage");
  script.compute(program, 1.0);
  script.compute(program, 1.0);
  const OpIndex received = script.communicate(program, OpKind::Recv, 1, call, {.stream = 2});
  script.compute(program, 1.0, {.stream = 0, .after = {received}});
  script.compute(program, 1.0);
  const Program& written = script.workload().programs[program];
  const ProgramRegions found = find_regions(written, joinable(written), ProgramOrder(written));
  EXPECT_EQ(found.shape_of(0), 0U);
  EXPECT_EQ(found.shape_of(1), kInsideRegion);
  EXPECT_LT(found.shape_of(3), kInsideRegion);
  EXPECT_EQ(found.shape_of(4), kInsideRegion);
}

// Is an operation left out that may outlast the region? No operation in the region waits for the
// collective, so it may run beyond the end.
TEST(Regions, LeaveOutCollectivesThatMayRunLonger) {
  Script script({1e9, 1e9});
  const auto call = script.call(CollectiveOp::AllReduce, {});
  const auto program = script.program("stage");
  const OpIndex first = script.compute(program, 1.0);
  script.compute(program, 1.0);
  script.communicate(program, OpKind::Collective, 0, call, {.stream = 1, .after = {first}});
  script.compute(program, 1.0);
  const Program& written = script.workload().programs[program];
  const ProgramRegions found = find_regions(written, joinable(written), ProgramOrder(written));
  EXPECT_EQ(found.shape_of(0), 0U);
  EXPECT_EQ(found.shape_of(1), kInsideRegion);
  EXPECT_EQ(found.shape_of(2), kAlone);
}

// Does a region need exclusive computation? A kernel on another stream without dependencies could
// be slowed by the collective inside.
TEST(Regions, NeedAComputeStreamOfTheirOwn) {
  Script script({1e9, 1e9});
  const auto call = script.call(CollectiveOp::AllReduce, {});
  const auto program = script.program("stage");
  script.compute(program, 1.0, {.stream = 2});
  const OpIndex first = script.compute(program, 1.0);
  const OpIndex reduced =
      script.communicate(program, OpKind::Collective, 0, call, {.stream = 1, .after = {first}});
  script.compute(program, 1.0, {.stream = 0, .after = {reduced}});
  const Program& written = script.workload().programs[program];
  EXPECT_EQ(find_regions(written, joinable(written), ProgramOrder(written)).regions, 0U);
}

// Adds a microbatch like add_microbatch(), with one of several small differences.
void add_variant(Script& script, std::uint32_t program, std::uint32_t call, std::uint64_t variant) {
  const OpIndex received = script.communicate(program, OpKind::Recv, 1, call, {.stream = 2});
  const OpIndex late = script.communicate(program, OpKind::Recv, 3, call, {.stream = 3});
  const OpIndex first = script.compute(program, 1.0, {.stream = 0, .after = {received}});
  const OpIndex reduced =
      script.communicate(program, OpKind::Collective, 0, call, {.stream = 1, .after = {first}});
  if (variant == 1) script.communicate(program, OpKind::Send, 2, call, {.stream = 2});
  const OpIndex second = variant == 2 ? script.compute(program, 2.0, {.stream = 0, .after = {late}})
                                      : script.compute(program, 2.0);
  const OpIndex other =
      script.communicate(program, variant == 3 ? OpKind::Send : OpKind::Collective, 0, call,
                         {.stream = 4, .after = {variant == 4 ? reduced : second}});
  script.compute(program, 1.0, {.stream = 0, .after = {reduced}});
  if (variant == 5) script.compute(program, 1.0);
  const OpIndex last = script.compute(program, 1.0, {.stream = 0, .after = {other}});
  script.communicate(program, OpKind::Send, 2, call, {.stream = 2, .after = {last}});
}

// Are the regions of instances those of a separate search? Equal microbatches reuse the result of
// the previous one. Kernels of other names have no model and are the oracle: names are not part of
// a shape.
TEST(Regions, InstancesHaveTheRegionsOfASearchAlone) {
  Script script({1e9, 1e9});
  const auto call = script.call(CollectiveOp::AllReduce, {});
  const auto program = script.program("stage");
  Program& written = script.workload().programs[program];
  Random random(7);
  for (std::int32_t microbatch = 0; microbatch < 300; ++microbatch) {
    const std::size_t first = written.operations.size();
    for (int half = 0; half < 2; ++half) {
      const std::uint64_t drawn = random.word() % 12;
      add_variant(script, program, call, drawn < 6 ? drawn : 0);
    }
    for (std::size_t op = first; op < written.operations.size(); ++op)
      written.operations.edit()[op].microbatch = microbatch;
  }
  for (Operation& op : written.operations.edit()) op.payload = op.name = 0;
  const Program blocks = test::in_blocks(written);
  EXPECT_LT(blocks.operations.blocks().size() + 100, blocks.operations.instances().size());
  const ProgramRegions copied = find_regions(blocks, joinable(blocks), ProgramOrder(blocks));
  const ProgramRegions alone = find_regions(written, joinable(written), ProgramOrder(written));
  EXPECT_EQ(copied.regions, alone.regions);
  for (OpIndex op = 0; op < written.operations.size(); ++op)
    ASSERT_EQ(copied.shape_of(op), alone.shape_of(op)) << op;
  ASSERT_EQ(copied.shapes.size(), alone.shapes.size());
  EXPECT_GT(copied.shapes.size(), 3U);
  for (std::size_t shape = 0; shape < alone.shapes.size(); ++shape) {
    EXPECT_EQ(copied.shapes[shape].pieces, alone.shapes[shape].pieces);
    EXPECT_EQ(copied.shapes[shape].next, alone.shapes[shape].next);
  }
}

// 2 s of computation concurrent with a collective of 1 s.
RegionShape concurrent_pieces() {
  RegionShape shape;
  shape.pieces = {
      {.offset = 0, .kind = OpKind::Compute, .next_begin = 0, .next_end = 2},
      {.offset = 1, .kind = OpKind::Collective, .waits_for = 1, .next_begin = 2, .next_end = 3},
      {.offset = 2, .kind = OpKind::Compute, .waits_for = 1, .next_begin = 3, .next_end = 4},
      {.offset = 3, .kind = OpKind::Compute, .waits_for = 2, .seen = true}};
  shape.next = {1, 2, 3, 3};
  return shape;
}
const std::vector<PieceCost> kBeside = {
    {.seconds = 0.0}, {.seconds = 1.0, .loss = 0.5}, {.seconds = 2.0}, {.seconds = 1.0}};

// Does a collective inside slow the concurrent computation? Half the speed for a second: 2.5 s.
TEST(RegionTimes, ACollectiveInsideSlowsTheConcurrentComputation) {
  const std::vector<OutsideSlowing> none = {{.from_s = 0.0}};
  const RegionTimes times = region_times(concurrent_pieces(), kBeside, none);
  EXPECT_DOUBLE_EQ(times.end_s[1], 1.0);
  EXPECT_DOUBLE_EQ(times.end_s[2], 2.5);
  EXPECT_DOUBLE_EQ(times.start_s[3], 2.5);
  EXPECT_DOUBLE_EQ(times.seconds, 3.5);
  EXPECT_EQ(times.seen, (std::vector<RegionTimes::Seen>{{.end_s = 3.5, .offset = 3}}));
}

// Does communication outside slow computation while it is active? From 2 s to 2.5 s half the speed:
// 0.25 s of work remain at 2.5 s, done at 2.75 s; then 1 s.
TEST(RegionTimes, CommunicationOutsideSlowsWhileItIsActive) {
  const std::vector<OutsideSlowing> losses = {
      {.from_s = 0.0}, {.from_s = 2.0, .slowing = {.loss = 0.5}}, {.from_s = 2.5}};
  const RegionTimes times = region_times(concurrent_pieces(), kBeside, losses);
  EXPECT_DOUBLE_EQ(times.end_s[2], 2.75);
  EXPECT_DOUBLE_EQ(times.seconds, 3.75);
}

// Do losses add up to the limit? However large the sum is, a tenth of the speed is left.
TEST(RegionTimes, LossesAddUpToTheirLimit) {
  const std::vector<OutsideSlowing> much = {{.from_s = 0.0, .slowing = {.loss = 0.8}}};
  const RegionTimes times = region_times(concurrent_pieces(), kBeside, much);
  // 0.1 s done after the first second, 1.9 s at a fifth of the speed.
  EXPECT_DOUBLE_EQ(times.end_s[2], 1.0 + 1.9 / 0.2);
}

}  // namespace
}  // namespace trainyard::test
