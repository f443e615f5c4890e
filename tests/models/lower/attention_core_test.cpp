// The core of unfused attention: its softmax is one kernel if Megatron-LM's kernel takes the
// scores, and the five kernels of PyTorch if it does not.
#include <gtest/gtest.h>

#include "models/host.hpp"
#include "sim/workload/workload.hpp"
#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

constexpr std::int64_t kLength = 128;  // of plan_of

MemoryBound softmax_of(std::int64_t tensor, std::int64_t micro_batch, std::string_view name,
                       DataType precision = DataType::Bf16) {
  TrainingPlan plan = plan_of(small_gpt(1), {.tensor = tensor}, 1);
  plan.training.precision = precision;
  plan.training.attention = AttentionKind::Unfused;
  plan.training.micro_batch_size = plan.training.global_batch_size = micro_batch;
  const Workload workload = lower(plan);
  MemoryBound found;
  for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
    if (view.name == name)
      found = std::get<MemoryBound>(workload.kernels[workload.programs.front().kernel_of(view.op)]);
  });
  return found;
}

// Is the softmax one kernel for a multiple of four score matrices? With sixteen heads, a sequence
// has four matrices on 4 ranks, and two sequences have four on 8 ranks.
TEST(Softmax, TakesFourMatricesOfScoresAtATime) {
  for (const auto& [tensor, micro_batch] : {std::pair{1, 1}, {4, 1}, {8, 2}, {16, 4}}) {
    const std::int64_t scores = kLength * kLength * 16 * micro_batch / tensor;
    const MemoryBound forward = softmax_of(tensor, micro_batch, "attention_softmax");
    EXPECT_EQ(forward.launches, 1) << tensor;
    EXPECT_EQ(forward.bytes, 2 * 2 * scores) << tensor;
    EXPECT_EQ(softmax_of(tensor, micro_batch, "attention_softmax_backward").bytes, 3 * 2 * scores);
  }
}

// Is the softmax five kernels of PyTorch for other numbers of matrices? Bytes read and written per
// score: cast 2 + 4, scale 4 + 4, mask 4 + 4, softmax 4 + 4 (backward 4 + 4 + 4), cast 4 + 2.
TEST(Softmax, IsFiveKernelsOfPyTorchForOtherNumbers) {
  for (const auto& [tensor, micro_batch] : {std::pair{8, 1}, {16, 1}, {16, 2}, {8, 3}}) {
    const std::int64_t scores = kLength * kLength * 16 * micro_batch / tensor;
    const MemoryBound forward = softmax_of(tensor, micro_batch, "attention_softmax");
    const MemoryBound backward = softmax_of(tensor, micro_batch, "attention_softmax_backward");
    EXPECT_EQ(forward.launches, 5) << tensor;
    EXPECT_EQ(forward.bytes, 36 * scores) << tensor;
    EXPECT_EQ(backward.launches, 5) << tensor;
    EXPECT_EQ(backward.bytes, 40 * scores) << tensor;
    const HostCosts eager = load_host_costs("eager");
    EXPECT_DOUBLE_EQ(eager.seconds(forward, StepPart::Forward).value(), 5 * 10e-6);
  }
}

// Are scores in fp32 masked and normalised by PyTorch, without casts, for any number of matrices?
// Bytes read and written per score: mask 4 + 4, softmax 4 + 4 (backward 4 + 4 + 4).
TEST(Softmax, IsTwoKernelsOfPyTorchInFp32) {
  for (const DataType precision : {DataType::Fp32, DataType::Tf32}) {
    for (const std::int64_t tensor : {1, 8}) {
      const std::int64_t scores = kLength * kLength * 16 / tensor;
      const MemoryBound forward = softmax_of(tensor, 1, "attention_softmax", precision);
      EXPECT_EQ(forward.launches, 2) << tensor;
      EXPECT_EQ(forward.bytes, 16 * scores) << tensor;
      EXPECT_EQ(softmax_of(tensor, 1, "attention_softmax_backward", precision).bytes, 20 * scores);
    }
  }
}

}  // namespace
}  // namespace trainyard
