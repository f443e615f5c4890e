#include "kernels/bench/grid.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace trainyard::bench {
namespace {

double estimated_seconds(Grid grid) {
  double seconds = 0.0;
  for (const Task& task : grid_tasks(grid)) seconds += estimated_duration(task).value();
  return seconds;
}

// Does the default grid fit into eight minutes, and the small one into half a minute?
TEST(Grid, DefaultFitsIntoEightMinutesAndUsesThem) {
  EXPECT_LT(estimated_seconds(Grid::Default), 360.0);
  EXPECT_GT(estimated_seconds(Grid::Default), 120.0);
  EXPECT_LT(estimated_seconds(Grid::Small), 30.0);
}

// Is every task of a grid unique?
TEST(Grid, HoldsNoTaskTwice) {
  for (const Grid grid : {Grid::Default, Grid::Small}) {
    std::set<std::string> texts;
    for (const Task& task : grid_tasks(grid))
      EXPECT_TRUE(texts.insert(task_text(task)).second) << task_text(task);
  }
}

// Does a grid cover every group, data type, pass and operation?
TEST(Grid, CoversEveryGroupDtypePassAndOperation) {
  for (const Grid grid : {Grid::Default, Grid::Small}) {
    std::map<std::string_view, int> groups;
    std::set<std::pair<DataType, GemmPass>> gemms;
    std::set<RowOperation> operations;
    for (const Task& task : grid_tasks(grid)) {
      ++groups[task_category(task)];
      if (const auto* gemm = std::get_if<Gemm>(&task)) gemms.insert({gemm->dtype, gemm->pass});
      if (const auto* row = std::get_if<RowKernel>(&task)) operations.insert(row->operation);
    }
    EXPECT_EQ(groups.size(), 7U);
    for (const DataType dtype : {DataType::Bf16, DataType::Fp8})
      for (const GemmPass pass : {GemmPass::Forward, GemmPass::DataGrad, GemmPass::WeightGrad})
        EXPECT_TRUE(gemms.contains({dtype, pass})) << to_string(dtype) << to_string(pass);
    EXPECT_TRUE(gemms.contains({DataType::Tf32, GemmPass::Forward}));
    EXPECT_TRUE(gemms.contains({DataType::Fp16, GemmPass::Forward}));
    EXPECT_EQ(operations.size(), 12U);
  }
}

// Does the largest task fit on a GPU of 40 GB with its operands and its result?
TEST(Grid, FitsOnAnA100) {
  std::size_t gemms = 0;
  for (const Task& task : grid_tasks(Grid::Default)) {
    const auto* gemm = std::get_if<Gemm>(&task);
    const double bytes = gemm != nullptr ? hbm_bytes(*gemm).value() : 0.0;
    EXPECT_LT(bytes, 16e9) << task_text(task);
    gemms += gemm != nullptr ? 1 : 0;
  }
  EXPECT_GT(gemms, 0U);
}

// Does the estimated duration grow with the work?
TEST(Grid, EstimateGrowsWithTheWork) {
  const Gemm small{.m = 1024, .n = 1024, .k = 1024};
  Gemm large = small;
  large.k = 65536;
  EXPECT_GT(estimated_duration(large).value(), estimated_duration(small).value());
}

}  // namespace
}  // namespace trainyard::bench
