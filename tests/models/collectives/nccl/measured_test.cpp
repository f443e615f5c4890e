// The machine model with its shipped constants against measured collectives, and with constants
// fitted to other rows. Prints a table by machine, operation and size.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "models/collectives/nccl/fit/fit_machine.hpp"

namespace trainyard::nccl::fit {
namespace {

Selection by_nodes(const Selection& rows, bool one_node) {
  Selection chosen;
  for (const Sample* row : rows)
    if (row->one_node() == one_node) chosen.push_back(row);
  return chosen;
}

void print(const char* title, const ErrorTable& table) {
  fmt::print("{}: all sizes {}; from 1 MiB {}\n", title, to_text(table.all()),
             to_text(table.from_one_mebibyte()));
}

class Measured : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto folder = std::filesystem::path(TRAINYARD_SOURCE_DIRECTORY) / ".." / "shared" /
                        "measured" / "collectives";
    if (!std::filesystem::exists(folder / "h100_sxm.csv"))
      GTEST_SKIP() << "NOT COMPARED: the measured collectives are not at " << folder;
    samples_ = read_samples(folder);
    rows_ = select_all(samples_);
    ASSERT_GT(rows_.size(), 2000U);
  }

  Samples samples_;
  Selection rows_;
};

TEST_F(Measured, SingleNodes) {
  const Selection rows = by_nodes(rows_, true);
  const ErrorTable model = errors_of(shipped_constants(), rows);
  const ErrorTable unfitted = unfitted_errors(rows);
  print("NCCL's own model", unfitted);
  print("machine model", model);
  fmt::print("{}", model.to_markdown());
  EXPECT_LT(model.all().mean_absolute(), 0.08);
  EXPECT_LT(model.from_one_mebibyte().mean_absolute(), 0.08);
  EXPECT_LT(std::abs(model.all().bias()), 0.02);
  EXPECT_LT(model.all().mean_absolute(), unfitted.all().mean_absolute());
}

TEST_F(Measured, SeveralNodes) {
  const Selection rows = by_nodes(rows_, false);
  const ErrorTable model = errors_of(shipped_constants(), rows);
  const ErrorTable unfitted = unfitted_errors(rows);
  print("NCCL's own model", unfitted);
  print("machine model", model);
  fmt::print("{}", model.to_markdown());
  EXPECT_LT(model.all().mean_absolute(), 0.21);
  EXPECT_LT(model.from_one_mebibyte().mean_absolute(), 0.15);
  EXPECT_LT(model.all().mean_absolute(), unfitted.all().mean_absolute());
}

// Constants from the other rows only.
TEST_F(Measured, RowsThatNobodyFitted) {
  const Selection rows = by_nodes(rows_, true);
  const ErrorTable thirds = cross_validate(rows, Split::Thirds);
  print("every third row left out", thirds);
  EXPECT_LT(thirds.all().mean_absolute(), 0.08);
  const ErrorTable ranks = cross_validate(rows, Split::Ranks);
  print("a number of ranks left out", ranks);
  EXPECT_LT(ranks.all().mean_absolute(), 0.10);
  const ErrorTable sources = cross_validate(rows, Split::Source);
  print("a log left out", sources);
  EXPECT_LT(sources.all().mean_absolute(), 0.12);
}

}  // namespace
}  // namespace trainyard::nccl::fit
