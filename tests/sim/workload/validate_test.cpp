#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hand_workload.hpp"
#include "sim/base/error.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {
namespace {

using namespace test;
using testing::HasSubstr;

const CollectiveCall kReduce{.op = CollectiveOp::AllReduce, .bytes = 1024};

// The problems of a workload, one per line; empty when it is valid.
std::string problems_of(const Workload& workload) {
  try {
    validate(workload, "step.json");
    check_progress(workload, "step.json");
  } catch (const InputError& error) {
    std::string text;
    for (const Problem& problem : error.problems()) text += to_text(problem) + "\n";
    return text;
  }
  return "";
}

// Two ranks that compute and reduce.
Workload pair() {
  Workload workload = empty_workload();
  ProgramWriter program(workload, "replica");
  const OpIndex op = program.compute("work", 64);
  program.collective("network", "data", kReduce, {op});
  for (std::uint32_t gpu = 0; gpu < 2; ++gpu) add_rank(workload, 0, gpu);
  add_group(workload, GroupKind::Data, {0, 1}, {"data"});
  return workload;
}

// Is a well-formed workload accepted?
TEST(Validate, AcceptsWhatIsWellFormed) {
  EXPECT_EQ(problems_of(pair()), "");
  EXPECT_EQ(problems_of(training_step({.tensor = 2, .data = 2, .stages = 3})), "");
}

// Does the error name an index that is out of range?
TEST(Validate, NamesAnIndexOutOfRange) {
  Workload workload = pair();
  workload.programs[0].operations.edit()[0].payload = 7;
  EXPECT_EQ(problems_of(workload),
            "step.json: /programs/0/operations/0/kernel: 7 is out of range (kernels are numbered 0 "
            "to 0)\n");
}

// Is waiting for a later operation refused?
TEST(Validate, RefusesADependencyOnALaterOperation) {
  Workload workload = pair();
  OperationList::Content content = workload.programs[0].operations.content();
  content.dependencies[0] = 1;
  workload.programs[0].operations = OperationList(content);
  EXPECT_THAT(problems_of(workload),
              HasSubstr("/programs/0/operations/1/after: operation 1 cannot wait for operation 1"));
}

// Is a send refused whose call is a collective?
TEST(Validate, RefusesASendThatIsACollective) {
  Workload workload = pair();
  workload.programs[0].operations.edit()[1].kind = OpKind::Send;
  EXPECT_THAT(problems_of(workload),
              HasSubstr("a send operation cannot make call 0, which is all_reduce"));
}

// Is an unbound slot refused that is in use?
TEST(Validate, RefusesAnUnboundSlotInUse) {
  Workload workload = pair();
  workload.ranks[1].slots.clear();
  EXPECT_THAT(problems_of(workload),
              HasSubstr("/ranks/1/slots: rank 1 runs program 0 but slot \"data\""));
}

// Is a slot refused that does not lead to the rank?
TEST(Validate, RefusesASlotThatDoesNotLeadToTheRank) {
  Workload workload = pair();
  workload.ranks[1].slots[0].group_rank = 0;
  EXPECT_THAT(problems_of(workload), HasSubstr("rank 1 is not member 0 of group 0"));
}

// Are empty groups and duplicate members refused?
TEST(Validate, RefusesEmptyGroupsAndRepeatedRanks) {
  Workload workload = pair();
  workload.groups[0].members = {0, 1, 1, 5};
  workload.groups.push_back({.kind = GroupKind::Other, .members = {}});
  const std::string text = problems_of(workload);
  EXPECT_THAT(text, HasSubstr("/groups/0/members: rank 1 is listed twice"));
  EXPECT_THAT(text, HasSubstr("there is no rank 5 (ranks are numbered 0 to 1)"));
  EXPECT_THAT(text, HasSubstr("/groups/1/members: a group needs at least one member"));
}

// Are two ranks on one GPU refused?
TEST(Validate, RefusesTwoRanksOnOneGpu) {
  Workload workload = pair();
  workload.ranks[1].gpu = 0;
  EXPECT_THAT(problems_of(workload), HasSubstr("/ranks/1/gpu: GPU 0 already has rank 0"));
}

// Is a workload without ranks refused?
TEST(Validate, RefusesAWorkloadWithoutRanks) {
  EXPECT_THAT(problems_of(empty_workload()), HasSubstr("there is no rank to run anything"));
}

// Is a receive by the sender refused?
TEST(Validate, RefusesToReceiveAsTheSender) {
  Workload workload = empty_workload();
  ProgramWriter program(workload, "both receive");
  program.receive("network", "from", 8);
  for (std::uint32_t gpu = 0; gpu < 2; ++gpu) add_rank(workload, 0, gpu);
  add_group(workload, GroupKind::Pipeline, {0, 1}, {"from"});
  EXPECT_THAT(problems_of(workload),
              HasSubstr("rank 0 receives through slot \"from\" as member 0 of the 2 ranks"));
}

// Ranks 0 and 1, with separate programs, in one group.
Workload two_programs(const std::vector<Call>& first, const std::vector<Call>& second) {
  Workload workload = empty_workload();
  for (const auto& [name, calls] : {std::pair{"a", first}, std::pair{"b", second}}) {
    ProgramWriter program(workload, name);
    for (const Call& call : calls) program.collective("network", "data", call);
  }
  workload.slots = {"data"};
  for (std::uint32_t gpu = 0; gpu < 2; ++gpu) add_rank(workload, gpu, gpu);
  add_group(workload, GroupKind::Data, {0, 1}, {"data"});
  return workload;
}

// Does the error name calls that do not match?
TEST(Validate, NamesCallsThatDoNotMatch) {
  const CollectiveCall gather{.op = CollectiveOp::AllGather, .bytes = 1024};
  EXPECT_EQ(
      problems_of(two_programs({kReduce, kReduce}, {kReduce, gather})),
      "step.json: /groups/0: call 2 of the group does not match: rank 0 makes all_reduce of "
      "1024 bytes (bf16, ring) in operation 1 \"all_reduce\" of program 0 \"a\", but rank 1 "
      "makes all_gather of 1024 bytes (bf16, ring) in operation 1 \"all_gather\" of program 1 "
      "\"b\" (all members make the same calls in the same order)\n");
  const CollectiveCall larger{.op = CollectiveOp::AllReduce, .bytes = 2048};
  EXPECT_THAT(problems_of(two_programs({kReduce}, {larger})),
              HasSubstr("all_reduce of 2048 bytes"));
}

// Does the error name a missing call?
TEST(Validate, NamesACallThatIsMissing) {
  EXPECT_THAT(problems_of(two_programs({kReduce, kReduce}, {kReduce})),
              HasSubstr("rank 0 calls the group 2 times and rank 1 only 1: rank 0 makes all_reduce "
                        "of 1024 bytes (bf16, ring) in operation 1"));
  EXPECT_THAT(problems_of(two_programs({}, {kReduce})), HasSubstr("and rank 0 only 0"));
}

// Does validation stop after a few problems?
TEST(Validate, StopsAfterAFewProblems) {
  Workload workload = pair();
  for (int i = 0; i < 100; ++i) {
    workload.programs[0].operations.push_back({.kind = OpKind::Compute, .payload = 9});
  }
  const std::string text = problems_of(workload);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);
}

// Does the error name the cycle of a send-send deadlock? Both ranks send first and then receive, on
// one stream: neither send can reach its receive.
TEST(Progress, NamesTheCycleOfASendSendDeadlock) {
  Workload workload = empty_workload();
  for (const std::string name : {"left", "right"}) {
    ProgramWriter program(workload, name);
    program.send("network", "to", 8);
    program.receive("network", "from", 8);
  }
  for (std::uint32_t gpu = 0; gpu < 2; ++gpu) add_rank(workload, gpu, gpu);
  add_group(workload, GroupKind::Pipeline, {0, 1}, {"to", "from"});
  add_group(workload, GroupKind::Pipeline, {1, 0}, {"to", "from"});
  EXPECT_EQ(
      problems_of(workload),
      "step.json: /programs: deadlock: rank 0's operation 0 \"send\" of program 0 \"left\" waits "
      "in "
      "group 0 for rank 1 to reach operation 1 \"recv\" of program 1 \"right\", which waits for "
      "operation 0 \"send\" of program 1 \"right\" of the same rank, which is before it on its "
      "stream, which waits in group 1 for rank 0 to reach operation 1 \"recv\" of program 0 "
      "\"left\", which waits for operation 0 \"send\" of program 0 \"left\" of the same rank, "
      "which "
      "is before it on its stream, where this began (issue one of these operations earlier, or on "
      "another stream)\n");
}

// Do sends on another stream not block?
TEST(Progress, SendsOnAnotherStreamDoNotBlock) {
  Workload workload = empty_workload();
  for (const std::string name : {"left", "right"}) {
    ProgramWriter program(workload, name);
    program.send("out", "to", 8);
    program.receive("in", "from", 8);
  }
  for (std::uint32_t gpu = 0; gpu < 2; ++gpu) add_rank(workload, gpu, gpu);
  add_group(workload, GroupKind::Pipeline, {0, 1}, {"to", "from"});
  add_group(workload, GroupKind::Pipeline, {1, 0}, {"to", "from"});
  EXPECT_EQ(problems_of(workload), "");
}

// Does the error name a dependency in the cycle?
TEST(Progress, NamesADependencyInTheCycle) {
  // Each rank waits, by an event, for data that the other sends only afterwards.
  Workload workload = empty_workload();
  for (const std::string name : {"left", "right"}) {
    ProgramWriter program(workload, name);
    const OpIndex received = program.receive("in", "from", 8);
    program.send("out", "to", 8, {received});
  }
  for (std::uint32_t gpu = 0; gpu < 2; ++gpu) add_rank(workload, gpu, gpu);
  add_group(workload, GroupKind::Pipeline, {0, 1}, {"to", "from"});
  add_group(workload, GroupKind::Pipeline, {1, 0}, {"to", "from"});
  EXPECT_THAT(problems_of(workload), HasSubstr("of the same rank, on which it depends"));
}

// Do collectives in another order deadlock?
TEST(Progress, CollectivesInAnotherOrderDeadlock) {
  // Two groups of the same two ranks, called in opposite order on one stream.
  Workload workload = empty_workload();
  for (const bool forward : {true, false}) {
    ProgramWriter program(workload, forward ? "ab" : "ba");
    program.collective("network", forward ? "a" : "b", kReduce);
    program.collective("network", forward ? "b" : "a", kReduce);
  }
  for (std::uint32_t gpu = 0; gpu < 2; ++gpu) add_rank(workload, gpu, gpu);
  add_group(workload, GroupKind::Tensor, {0, 1}, {"a"});
  add_group(workload, GroupKind::Data, {0, 1}, {"b"});
  EXPECT_THAT(problems_of(workload), HasSubstr("deadlock: rank 0's operation 0 \"all_reduce\" of "
                                               "program 0 \"ab\" waits in group 0 for rank 1"));
}

// Two ranks and an uneven all_to_all: 0 sends 7 and keeps 3, 1 sends 5.
Workload uneven_pair() {
  Workload workload = pair();
  workload.calls[0] = CollectiveCall{
      .op = CollectiveOp::AllToAll, .bytes = 10, .algorithm = "direct", .matrix = {3, 7, 5, 0}};
  return workload;
}

// Is a byte matrix accepted?
TEST(Validate, AcceptsAByteMatrix) { EXPECT_EQ(problems_of(uneven_pair()), ""); }

// Is a byte matrix accepted only for an all_to_all?
TEST(Validate, OnlyAnAllToAllHasAByteMatrix) {
  Workload workload = uneven_pair();
  std::get<CollectiveCall>(workload.calls[0]).op = CollectiveOp::AllGather;
  EXPECT_EQ(problems_of(workload),
            "step.json: /calls/0/matrix: all_gather has no byte matrix (only all_to_all may be "
            "uneven)\n");
}

// Must a byte matrix fit its group and its bytes?
TEST(Validate, AByteMatrixFitsItsGroupAndItsBytes) {
  Workload workload = uneven_pair();
  std::vector<std::int64_t>& matrix = std::get<CollectiveCall>(workload.calls[0]).matrix;
  matrix[2] = -5;
  EXPECT_EQ(problems_of(workload), "step.json: /calls/0/matrix/2: -5 bytes cannot be sent\n");
  matrix = {3, 7, 5};
  EXPECT_THAT(problems_of(workload), HasSubstr("/calls/0/matrix: 3 numbers are no square"));
  matrix = {3, 8, 5, 0};
  EXPECT_THAT(problems_of(workload),
              HasSubstr("/calls/0/matrix: the busiest member sends 11 bytes, but bytes is 10"));
  matrix = {3, 7, 0, 5, 0, 0, 0, 0, 0};
  EXPECT_EQ(problems_of(workload),
            "step.json: /calls/0/matrix: 9 numbers for the 2 members of group 0 (give 4 of "
            "them)\n");
}

// Must the members agree on the matrix? Calls with equal sizes and different matrices are not the
// same call.
TEST(Validate, MembersMustAgreeOnTheMatrix) {
  Workload workload = uneven_pair();
  workload.calls.push_back(workload.calls[0]);
  std::get<CollectiveCall>(workload.calls[1]).matrix = {4, 6, 5, 0};
  workload.programs.push_back(workload.programs[0]);
  workload.programs[1].operations.edit()[1].payload = 1;
  workload.ranks[1].program = 1;
  EXPECT_THAT(problems_of(workload), HasSubstr("call 1 of the group does not match"));
}

}  // namespace
}  // namespace trainyard
