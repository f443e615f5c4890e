// The machine model with its shipped constants against measured collectives, and with constants
// fitted to other rows. The test prints a table by machine, operation and size.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "sim/nccl/fit/fit_machine.hpp"
#include "sim/nccl/fit/samples.hpp"

namespace trainyard::nccl::fit {
namespace {

void print(const char* title, const ErrorTable& table) {
  fmt::print("{}: all sizes {}; from 1 MiB {}\n", title, to_text(table.all()),
             to_text(table.from_one_mebibyte()));
}

// Read once: choosing for 8 900 rows takes half a second.
const Samples* measured() {
  const auto folder = std::filesystem::path(TRAINYARD_SOURCE_DIRECTORY) / ".." / "shared" /
                      "measured" / "collectives";
  if (!std::filesystem::exists(folder / "h100_sxm.csv")) return nullptr;
  static const Samples samples = read_samples(folder);
  return &samples;
}

class Measured : public ::testing::Test {
 protected:
  void SetUp() override {
    if (measured() == nullptr)
      GTEST_SKIP() << "SKIPPED, NOT TESTED: no measured collectives are here";
    ASSERT_GT(select_fitted(samples()).size(), 2000U);
  }
  static const Samples& samples() { return *measured(); }
};

// Are single nodes predicted within the goal?
TEST_F(Measured, SingleNodes) {
  const Selection rows = select(samples(), Rows::OneNode);
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

// Are several nodes predicted within the goal?
TEST_F(Measured, SeveralNodes) {
  const Selection rows = select(samples(), Rows::SeveralNodes);
  const ErrorTable model = errors_of(shipped_constants(), rows);
  const ErrorTable unfitted = unfitted_errors(rows);
  print("NCCL's own model", unfitted);
  print("machine model", model);
  fmt::print("{}", model.to_markdown());
  // Two thirds of the rows are of one cluster, whose runs differ by half and more from 64 nodes on.
  EXPECT_LT(model.all().mean_absolute(), 0.25);
  EXPECT_LT(model.from_one_mebibyte().mean_absolute(), 0.25);
  EXPECT_LT(model.all().mean_absolute(), unfitted.all().mean_absolute());
}

// Does the model carry over to more nodes than a fit has seen? On fat trees of InfiniBand.
TEST_F(Measured, FatTreesOfMoreNodesThanTheFitHasSeen) {
  Selection few;
  Selection many;
  for (const Sample* row : select_fitted(samples())) {
    if (row->communicator->nodes <= 64) few.push_back(row);
    if (row->communicator->nodes > 64 && row->fabric == "infiniband") many.push_back(row);
  }
  const ErrorTable model = errors_of(fit_constants(few), many);
  print("fitted to 64 nodes, more nodes", model);
  EXPECT_GT(many.size(), 30U);
  EXPECT_LT(model.all().mean_absolute(), 0.15);
}

// Is a machine without fitted rows predicted? It is another machine with A100.
TEST_F(Measured, ATableThatNobodyFitted) {
  const Selection rows = select(samples(), Rows::Unfitted);
  const ErrorTable model = errors_of(shipped_constants(), rows);
  print("machine model", model);
  fmt::print("{}", model.to_markdown());
  EXPECT_GT(rows.size(), 4000U);
  EXPECT_LT(model.all().mean_absolute(), 0.05);
}

// Are rows predicted with constants from the other tables and logs only? (fit_nccl also leaves out
// numbers of ranks.)
TEST_F(Measured, RowsThatNobodyFitted) {
  const Selection rows = select(samples(), Rows::OneNode);
  const ErrorTable sources = cross_validate(rows, Split::Source);
  print("a table or log left out", sources);
  EXPECT_LT(sources.all().mean_absolute(), 0.12);
}

}  // namespace
}  // namespace trainyard::nccl::fit
