// GEMMs in pieces with concurrent messages: the closed form of the time of a pair, and that the
// pieces are the whole.
#include <gtest/gtest.h>

#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

TrainingPlan chunked_plan(std::int64_t tensor, bool chunked) {
  TrainingPlan plan = plan_of(
      small_llama(1), {.tensor = tensor, .sequence_parallel = true, .chunked_tensor = chunked}, 1);
  return plan;
}

double transfer_makespan(const TrainingPlan& plan, const KernelSeconds& kernel, double message,
                         const Replay& how = {}) {
  const CallModel communication([message](const Call& call) {
    return op_of(call) == CollectiveOp::SendRecv ? message : 0.0;
  });
  return replay(lower(plan), communication, kernel, how).timeline.makespan_s;
}

// Only the GEMMs of one shape take time: `whole` seconds for all rows of one.
KernelSeconds only(std::int64_t n, std::int64_t k, GemmPass pass, double whole) {
  return [=](const Kernel& kernel) {
    const auto* gemm = std::get_if<Gemm>(&kernel);
    if (gemm == nullptr || gemm->n != n || gemm->k != k || gemm->pass != pass) return 0.0;
    return whole * static_cast<double>(gemm->m) / 128.0;
  };
}

// Does a pair take the longer of both, plus one piece? Per layer the gathers are before qkv,
// ffn_up, and both row-parallel gradients, the reductions after the projection and ffn_down: six
// pairs, five of which have nothing to compute here.
TEST(TensorPipeline, TakesTheLongerOfBothAndOnePiece) {
  for (const std::int64_t t : {4, 8}) {
    const TrainingPlan plan = chunked_plan(t, true);
    const auto pieces = static_cast<double>(t);
    for (const auto& [g, m] : {std::pair{1.0, 0.25}, std::pair{0.25, 1.0}, std::pair{1.0, 1.0}}) {
      const double idle = 5.0 * (pieces - 1.0) * m;
      const double pair = std::max(pieces * g, (pieces - 1.0) * m + g);
      const auto up = only(2 * 512 / t, 256, GemmPass::Forward, pieces * g);
      const auto down = only(256, 512 / t, GemmPass::Forward, pieces * g);
      EXPECT_NEAR(transfer_makespan(plan, up, m), idle + pair, 1e-9 * (idle + pair))
          << "gather, product";
      EXPECT_NEAR(transfer_makespan(plan, down, m), idle + pair, 1e-9 * (idle + pair))
          << "and scatter";
    }
  }
}

// Do the pieces add up to the whole?
TEST(TensorPipeline, ThePiecesAreTheWhole) {
  for (const std::int64_t t : {2, 4, 8}) {
    const Workload whole = lower(chunked_plan(t, false));
    const Workload pieces = lower(chunked_plan(t, true));
    EXPECT_EQ(executed_flops(whole), executed_flops(pieces));
    const auto sent = [t](const Workload& workload) {
      std::int64_t bytes = 0;
      for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
        if (view.op.kind == OpKind::Compute || view.op.kind == OpKind::Recv) return;
        const Call& call = workload.calls[view.op.payload];
        if (op_of(call) == CollectiveOp::SendRecv) bytes += bytes_of(call);
        if (op_of(call) == CollectiveOp::AllGather || op_of(call) == CollectiveOp::ReduceScatter) {
          bytes += bytes_of(call) / t * (t - 1);
        }
      });
      return bytes;
    };
    EXPECT_GT(sent(whole), 0);
    EXPECT_EQ(sent(whole), sent(pieces));
  }
}

// Is every piece that arrives added to the own one? A layer has two reductions, and each adds a
// piece for each other rank: two are read and one is written, of 128 tokens of 256 numbers of 2
// bytes divided by t.
TEST(TensorPipeline, ASumReadsTwoPiecesAndWritesOne) {
  for (const std::int64_t t : {2, 4, 8}) {
    const Workload workload = lower(chunked_plan(t, true));
    std::int64_t sums = 0;
    for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
      if (!workload.names[view.op.name].ends_with("_sum")) return;
      const Program& program = workload.programs.front();
      const Kernel& kernel = workload.kernels[program.kernel_of(view.op)];
      ASSERT_TRUE(std::holds_alternative<MemoryBound>(kernel));
      EXPECT_EQ(std::get<MemoryBound>(kernel).bytes, 3 * 128 * 256 * 2 / t);
      ++sums;
    });
    EXPECT_EQ(sums, 2 * (t - 1)) << t;
  }
}

// Do folded and unfolded runs agree?
TEST(TensorPipeline, FoldedIsUnfolded) {
  const TrainingPlan plan = chunked_plan(4, true);
  const auto seconds = [](const Kernel& kernel) { return flops(kernel).value() * 1e-9; };
  const double folded = transfer_makespan(plan, seconds, 1e-3);
  EXPECT_NEAR(transfer_makespan(plan, seconds, 1e-3, {.engine = "ideal", .fold = false}), folded,
              1e-9 * folded);
}

}  // namespace
}  // namespace trainyard
