#include "kernels/bench/measured_profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "kernels/bench/grid.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard::bench {
namespace {

namespace fs = std::filesystem;

const nlohmann::ordered_json h200 = {{"gpu", "NVIDIA H200"},
                                     {"driver", "580.1"},
                                     {"cuda_runtime", "13.0"},
                                     {"cublaslt", "13.1.0"},
                                     {"date", "2026-11-21"}};
const Task gemm = Gemm{.m = 8, .n = 16, .k = 32, .dtype = DataType::Fp8};
const Task activation = RowKernel{.operation = RowOperation::Swiglu, .rows = 4, .columns = 8};

// A separate folder for each test, which is removed afterwards.
class MeasuredProfileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] fs::path file() const { return folder_ / "h200.json"; }

 private:
  fs::path folder_;
};

std::string problem_of(const fs::path& file) {
  try {
    (void)read_profile(file);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// Does every task of the grid read back as it was written?
TEST_F(MeasuredProfileTest, EveryTaskOfTheGridComesBackAsWritten) {
  MeasuredProfile profile{.provenance = h200, .rows = {}};
  double time = 1.0;
  for (const Task& task : grid_tasks(Grid::Default)) {
    profile.rows.push_back({task, {time += 0.125, time - 0.0625, time + 0.1}, "tile 1"});
    if (std::holds_alternative<Interference>(task))
      profile.rows.back().interference = InterferenceResult{0.5 * time, 90e9, 100e9};
  }
  finish_profile(profile, file());
  const MeasuredProfile read = read_profile(file());
  EXPECT_EQ(read.rows, profile.rows);
  EXPECT_EQ(read.provenance, h200);
}

// Do rows use the words of workload files?
TEST_F(MeasuredProfileTest, RowsSpeakTheWordsOfWorkloads) {
  const auto json = profile_to_json({h200, {{activation, {3.0, 2.5, 3.5}, ""}}});
  EXPECT_EQ(json["schema"], "trainyard.measured_kernels");
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["rows"][0].dump(),
            R"({"kernel":{"kind":"memory_bound","what":"activation","bytes":192,"launches":1,)"
            R"("operation":"swiglu","rows":4,"columns":8},"time_us_median":3.0,)"
            R"("time_us_p10":2.5,"time_us_p90":3.5,"checked":true})");
}

// Is a partial file kept, and continued by the next run?
TEST_F(MeasuredProfileTest, PartialFileIsKeptAndGoneOnWith) {
  MeasuredProfile first{.provenance = h200, .rows = {{gemm, {2.0, 1.0, 3.0}, "tile 1"}}};
  write_partial(first, file());
  EXPECT_FALSE(fs::exists(file()));
  ASSERT_TRUE(fs::exists(partial_name(file())));

  auto later = h200;
  later["date"] = "2026-11-22";
  MeasuredProfile resumed = resume_profile(file(), later);
  EXPECT_TRUE(resumed.has(gemm));
  EXPECT_FALSE(resumed.has(activation));
  EXPECT_EQ(resumed.provenance["date"], "2026-11-22");

  resumed.rows.push_back({activation, {3.0, 3.0, 3.0}, ""});
  finish_profile(resumed, file());
  EXPECT_FALSE(fs::exists(partial_name(file())));
  EXPECT_EQ(read_profile(file()).rows.size(), 2U);
}

// Are finished and partial rows joined, with each task once?
TEST_F(MeasuredProfileTest, FinishedAndPartialRowsAreJoinedOnce) {
  const MeasuredRow old{gemm, {2.0, 1.0, 3.0}, ""};
  finish_profile({h200, {old}}, file());
  write_partial({h200, {{gemm, {9.0, 9.0, 9.0}, ""}, {activation, {3.0, 3.0, 3.0}, ""}}}, file());
  const MeasuredProfile resumed = resume_profile(file(), h200);
  ASSERT_EQ(resumed.rows.size(), 2U);
  EXPECT_EQ(resumed.rows[0], old);
}

// Is the profile of a missing file empty?
TEST_F(MeasuredProfileTest, NothingThereIsAnEmptyProfile) {
  EXPECT_TRUE(resume_profile(file(), h200).rows.empty());
}

// Is a profile of another GPU or library not continued?
TEST_F(MeasuredProfileTest, RefusesToGoOnWithAnotherGpuOrLibrary) {
  finish_profile({h200, {}}, file());
  for (const char* key : {"gpu", "driver", "cuda_runtime", "cublaslt"}) {
    auto other = h200;
    other[key] = "another";
    EXPECT_THROW((void)resume_profile(file(), other), InputError) << key;
  }
}

// Are other schemas and versions refused?
TEST_F(MeasuredProfileTest, RefusesOtherSchemasAndVersions) {
  write_file(file(), R"({"schema": "trainyard.gpu_profile", "version": 2, "rows": []})");
  const std::string problem = problem_of(file());
  EXPECT_THAT(problem, ::testing::HasSubstr("/schema"));
  EXPECT_THAT(problem, ::testing::HasSubstr("/version"));
  EXPECT_THAT(problem, ::testing::HasSubstr("/provenance"));
}

// Are rows that contradict themselves refused?
TEST_F(MeasuredProfileTest, RefusesRowsThatContradictThemselves) {
  auto json = profile_to_json({h200, {{activation, {3.0, 2.5, 3.5}, ""}}});
  json["rows"][0]["kernel"]["bytes"] = 191;
  json["rows"][0]["time_us_p10"] = 4.0;
  json["rows"][0]["checked"] = false;
  write_file(file(), json.dump());
  const std::string problem = problem_of(file());
  EXPECT_THAT(problem, ::testing::HasSubstr("/rows/0/kernel/bytes"));
  EXPECT_THAT(problem, ::testing::HasSubstr("/rows/0/time_us_median"));
  EXPECT_THAT(problem, ::testing::HasSubstr("/rows/0/checked"));
}

// Are quantiles interpolated between ordered samples?
TEST(Statistics, InterpolatesBetweenOrderedSamples) {
  const Spread spread = spread_of({3.0, 1.0, 2.0});
  EXPECT_DOUBLE_EQ(spread.median, 2.0);
  EXPECT_DOUBLE_EQ(spread.p10, 1.2);
  EXPECT_DOUBLE_EQ(spread.p90, 2.8);
}

// Is the median of an even number of samples the mean of the middle two?
TEST(Statistics, EvenCountsTakeTheMiddleOfTwo) {
  EXPECT_DOUBLE_EQ(spread_of({4.0, 1.0, 2.0, 3.0}).median, 2.5);
}

// Does one sample have itself as all quantiles?
TEST(Statistics, OneSampleIsItsOwnSpread) {
  EXPECT_EQ(spread_of({7.0}), (Spread{.median = 7.0, .p10 = 7.0, .p90 = 7.0}));
}

// Does one outlier in 21 samples change no quantile?
TEST(Statistics, OneOutlierOfTwentyOneMovesNothing) {
  std::vector<double> samples(20, 5.0);
  samples.push_back(1e6);
  EXPECT_EQ(spread_of(samples), (Spread{.median = 5.0, .p10 = 5.0, .p90 = 5.0}));
}

}  // namespace
}  // namespace trainyard::bench
