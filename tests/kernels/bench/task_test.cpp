#include "kernels/bench/task.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/bench/grid.hpp"
#include "sim/base/error.hpp"

namespace trainyard::bench {
namespace {

std::string line_problem(const std::string& line) {
  try {
    (void)read_shape_line(line);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// Does the parser read every line that a profile prints?
TEST(ShapeLine, ReadsWhatProfilesPrint) {
  for (const Task& task : grid_tasks(Grid::Default))
    EXPECT_EQ(read_shape_line(task_text(task)), task) << task_text(task);
}

// Does the parser read the words of a GEMM in any order?
TEST(ShapeLine, ReadsAProductWordByWord) {
  const Task expected = Gemm{.m = 2,
                             .n = 3,
                             .k = 5,
                             .batch = 7,
                             .dtype = DataType::Fp16,
                             .pass = GemmPass::WeightGrad,
                             .accumulate_fp32 = true};
  EXPECT_EQ(read_shape_line("gemm accumulate_fp32 k5 n3 m2 wgrad fp16 batch7"), expected);
  EXPECT_EQ(read_shape_line("gemm m2 n3 k5"), Task(Gemm{.m = 2, .n = 3, .k = 5}));
}

// Does the parser read the rows of experts?
TEST(ShapeLine, ReadsTheRowsOfExperts) {
  const GroupedGemm even{.rows = {256, 256, 256}, .n = 8, .k = 16};
  EXPECT_EQ(read_shape_line("experts rows256x3 n8 k16"), Task(even));
  const GroupedGemm uneven{.rows = {300, 0, 212},
                           .n = 8,
                           .k = 16,
                           .pass = GemmPass::WeightGrad,
                           .accumulate_fp32 = true,
                           .per_expert = true};
  EXPECT_EQ(read_shape_line("experts rows300,0,212 n8 k16 wgrad accumulate_fp32 per_expert"),
            Task(uneven));
  EXPECT_EQ(read_shape_line(task_text(uneven)), Task(uneven));
  EXPECT_THAT(line_problem("experts n8 k16"), ::testing::HasSubstr("has no rows with numbers"));
  EXPECT_THAT(line_problem("experts rows3; n8 k16"), ::testing::HasSubstr("rows3;, which is"));
}

// Does the parser read attention shapes?
TEST(ShapeLine, ReadsAttention) {
  const Attention expected{.query_heads = 32,
                           .kv_heads = 8,
                           .query_length = 4096,
                           .kv_length = 4096,
                           .head_dim_qk = 192,
                           .head_dim_v = 128,
                           .pairs = 4096 * 4097 / 2,
                           .backward = true};
  EXPECT_EQ(read_shape_line("attention heads32/8 q4096 d192/128 backward"), Task(expected));
  EXPECT_EQ(read_shape_line("unfused attention heads32/8 q4096 d192/128 backward"),
            Task(UnfusedAttention{expected}));
  const Attention full{.batch = 2,
                       .query_heads = 4,
                       .kv_heads = 4,
                       .query_length = 8,
                       .kv_length = 16,
                       .head_dim_qk = 64,
                       .head_dim_v = 64,
                       .pairs = 128,
                       .causal = false,
                       .dtype = DataType::Fp16};
  EXPECT_EQ(read_shape_line("attention full batch2 heads4 q8 kv16 d64 fp16"), Task(full));
  EXPECT_THAT(line_problem("attention heads4 q8 kv16 d64"), ::testing::HasSubstr("add \"full\""));
}

// Does an error name the wrong word?
TEST(ShapeLine, NamesTheWordThatIsWrong) {
  EXPECT_THAT(line_problem("gemm m2 n3"), ::testing::HasSubstr("has no k with a number"));
  EXPECT_THAT(line_problem("gemm m2 n3 k5 fp4"), ::testing::HasSubstr("\"fp4\""));
  EXPECT_THAT(line_problem("gemm m0 n3 k5"), ::testing::HasSubstr("m0, which is not positive"));
  EXPECT_THAT(line_problem("copy 12 B"), ::testing::HasSubstr("names no direction"));
  EXPECT_THAT(line_problem("gelu rows1 columns8"), ::testing::HasSubstr("names no known kernel"));
  EXPECT_THAT(line_problem(""), ::testing::HasSubstr("names no known kernel"));
  EXPECT_THAT(line_problem("gemm m99999999999999999999 n3 k5"), ::testing::HasSubstr("has no m"));
}

// Do the memory-bound tasks move the bytes that the simulator counts for the same kernels? At 4 x
// 8: copy 4 B per element, add 6, SwiGLU 6, Adam 30.
TEST(Task, MemoryBoundBytes) {
  const auto bytes = [](RowOperation operation) {
    return as_memory_bound({.operation = operation, .rows = 4, .columns = 8}).bytes;
  };
  EXPECT_EQ(bytes(RowOperation::Copy), 128);
  EXPECT_EQ(bytes(RowOperation::Add), 192);
  EXPECT_EQ(bytes(RowOperation::RmsNorm), 128 + 16);
  EXPECT_EQ(bytes(RowOperation::LayerNorm), 128 + 32);
  EXPECT_EQ(bytes(RowOperation::Swiglu), 192);
  EXPECT_EQ(bytes(RowOperation::Softmax), 128);
  EXPECT_EQ(bytes(RowOperation::Adam), 960);
  EXPECT_EQ(bytes(RowOperation::Rope), 128 + 4 * 256);
  EXPECT_EQ(bytes(RowOperation::CrossEntropy), 192);
  EXPECT_EQ(bytes(RowOperation::Embedding), 128);
  EXPECT_EQ(bytes(RowOperation::Permute), 128);
  EXPECT_EQ(bytes(RowOperation::Cast), 192);
}

}  // namespace
}  // namespace trainyard::bench
