// Workers that synchronise only through parameter servers, over several steps. A worker may be
// `staleness` steps ahead of the slowest (Ho et al. 2013, "More Effective Distributed ML via a
// Stale Synchronous Parallel Parameter Server", NIPS).
#include <gtest/gtest.h>

#include <map>

#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/lower.hpp"
#include "models/lower/options.hpp"
#include "sim/base/error.hpp"
#include "sim/timeline/memory.hpp"
#include "sim/workload/workload.hpp"
#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

TrainingPlan workers(std::int64_t count) { return plan_of(small_llama(4), {.data = count}, 2); }

// Two microbatches of four layers, one second each for forward and two for backward: C = 24 s.
double server_makespan(const ServerSteps& steps, double update, bool folded = true) {
  const KernelSeconds core = core_seconds(1.0, 2.0);
  const KernelSeconds seconds = [&](const Kernel& kernel) {
    const auto* memory = std::get_if<MemoryBound>(&kernel);
    const bool updates = memory != nullptr && memory->kind == MemoryBoundKind::Optimizer;
    return updates ? update : core(kernel);
  };
  // Workers have no optimizer kernel, so only the servers' update takes `update`.
  return replay(server_steps(workers(4), steps), free_model(), seconds, {.fold = folded})
      .timeline.makespan_s;
}

// Does running ahead hide the update?
TEST(ServerSteps, RunningAheadHidesTheUpdate) {
  EXPECT_DOUBLE_EQ(server_makespan({.servers = {0, 1}, .steps = 3}, 5.0), 3 * (24.0 + 5.0));
  // A worker that runs ahead has a separate update for every push: four in sequence after the last
  // step.
  EXPECT_DOUBLE_EQ(server_makespan({.servers = {0, 1}, .steps = 3, .staleness = 1}, 5.0),
                   3 * 24.0 + 4 * 5.0);
  EXPECT_DOUBLE_EQ(server_makespan({.servers = {0, 1}, .steps = 3, .staleness = {}}, 5.0),
                   3 * 24.0 + 4 * 5.0);
}

// Do the servers' updates bound asynchronous workers? Every push costs an update of 10 s.
TEST(ServerSteps, UpdatesBoundWhoRunsAhead) {
  EXPECT_DOUBLE_EQ(server_makespan({.servers = {0, 1}, .steps = 3, .staleness = {}}, 10.0),
                   24.0 + 3 * 4 * 10.0);
}

// Can workers make different numbers of steps? Workers 0 and 1 make four steps, 2 and 3 two: each
// of the last pushes has a separate update.
TEST(ServerSteps, WorkersMakeDifferentNumbersOfSteps) {
  const ServerSteps uneven{
      .servers = {4}, .steps = 3, .steps_of_worker = {4, 4, 2, 2}, .staleness = {}};
  EXPECT_DOUBLE_EQ(server_makespan(uneven, 0.5), 4 * 24.0 + 4 * 0.5);
  EXPECT_DOUBLE_EQ(server_makespan(uneven, 0.5, true), server_makespan(uneven, 0.5, false));
  const Workload workload = server_steps(workers(4), uneven);
  ASSERT_NO_THROW(validate(workload, ""));
  ASSERT_NO_THROW(check_progress(workload, ""));
  ServerSteps together = uneven;
  together.staleness = 0;
  EXPECT_THROW(static_cast<void>(server_steps(workers(4), together)), InputError);
}

// Do folded and unfolded runs agree?
TEST(ServerSteps, FoldedIsUnfolded) {
  for (const std::uint32_t staleness : {0U, 1U}) {
    const ServerSteps steps{.servers = {4}, .steps = 2, .staleness = staleness};
    EXPECT_DOUBLE_EQ(server_makespan(steps, 5.0, true), server_makespan(steps, 5.0, false));
  }
}

// Does a worker send its gradients and receive the weights once per step, server by server?
TEST(ServerSteps, VolumeOfAWorker) {
  const TrainingPlan plan = workers(4);
  const Workload workload = server_steps(plan, {.servers = {4, 5, 6}, .steps = 5});
  ASSERT_NO_THROW(validate(workload, ""));
  ASSERT_NO_THROW(check_progress(workload, ""));
  std::map<OpKind, std::int64_t> bytes;
  for (const Operation& op : workload.programs[workload.ranks[0].program].operations) {
    if (op.kind != OpKind::Compute) bytes[op.kind] += bytes_of(workload.calls[op.payload]);
  }
  const std::int64_t whole =
      chunk_weights(weight_options(plan), {0, 4, true, true}).parameters() * 4;
  EXPECT_EQ(bytes[OpKind::Send], 5 * whole);
  EXPECT_EQ(bytes[OpKind::Recv], 5 * whole);
}

// Is the state with the servers? Workers keep weights and gradients, servers the rest of the state,
// and all memory is freed.
TEST(ServerSteps, StateIsWithTheServers) {
  const Workload workload = server_steps(workers(4), {.servers = {4}, .steps = 2});
  const auto optimizer = static_cast<std::size_t>(Category::OptimizerState);
  const auto of = [&](RankId rank) {
    return resident_bytes(workload, workload.programs[workload.ranks[rank].program]);
  };
  EXPECT_EQ(of(0)[optimizer], 0);
  EXPECT_GT(of(0)[static_cast<std::size_t>(Category::Weights)], 0);
  EXPECT_EQ(of(4)[optimizer],
            12 * chunk_weights(weight_options(workers(4)), {0, 4, true, true}).parameters());
  for (const Program& program : workload.programs) {
    for (const std::int64_t bytes : unreturned_bytes(workload, program)) EXPECT_EQ(bytes, 0);
  }
}

// Are layouts that share the model refused?
TEST(ServerSteps, RefusesWhatSharesTheModel) {
  TrainingPlan plan = workers(4);
  plan.parallelism.tensor = 2;
  EXPECT_THROW(static_cast<void>(server_steps(plan, {})), InputError);
}

}  // namespace
}  // namespace trainyard
