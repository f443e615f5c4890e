// Is a fixed sample of measured runs still predicted as well as before?
//
// tests/measured/published_runs.json holds published step times with their sources, in the form
// that `trainyard validate` reads. The bounds are the errors reached, rounded up to half a percent:
// a change that makes a series worse fails here, and one that makes it better may lower its bound.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "tools/studies/validate/dataset.hpp"
#include "tools/studies/validate/report.hpp"
#include "tools/studies/validate/validation.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, double> kMapeMost = {{"dgxc", 0.030},     {"foundry", 0.047},
                                                 {"internevo", 0.05}, {"korthikanti", 0.045},
                                                 {"simumax", 0.040},  {"vtrain", 0.075}};

// The scenarios that take no more than a second; the command runs the large ones.
std::vector<MeasuredRow> sample() {
  std::vector<MeasuredRow> rows;
  for (MeasuredRow& row :
       read_dataset(TRAINYARD_SOURCE_DIRECTORY "/tests/measured/published_runs.json")) {
    if (whole_at(row.description, "/hardware/num_gpus", 0) <= 128 || row.source != "korthikanti") {
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

// Is the sample predicted as well as before?
TEST(Sample, IsPredictedAsWellAsBefore) {
  const std::vector<Outcome> outcomes = validate(sample(), {});
  SCOPED_TRACE(validation_text(outcomes, {}));
  EXPECT_EQ(score_of_all(outcomes).refused, 0U);
  const std::vector<GroupScore> scores = scores_by(outcomes, Feature::Source);
  ASSERT_EQ(scores.size(), kMapeMost.size());
  for (const GroupScore& group : scores) {
    EXPECT_LE(group.score.mape, kMapeMost.at(group.group)) << group.group;
  }
}

// Does a cache give the same predictions without simulation?
TEST(Sample, ACacheGivesTheSameAnswersWithoutSimulating) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "answers.jsonl";
  std::filesystem::remove(file);
  std::vector<MeasuredRow> rows = sample();
  rows.resize(2);
  const std::vector<Outcome> first = validate(rows, {.cache = file});
  const auto written = std::filesystem::file_size(file);
  const std::vector<Outcome> second = validate(rows, {.cache = file});
  EXPECT_EQ(std::filesystem::file_size(file), written) << "nothing was simulated again";
  for (std::size_t row = 0; row < rows.size(); ++row) {
    EXPECT_EQ(first[row].predicted_s, second[row].predicted_s);
    EXPECT_EQ(first[row].wall_s, second[row].wall_s) << "the wall time is that of the first";
  }
}

// A copy of the data that simulations read; a test may change it.
class OwnData {
 public:
  OwnData() : folder_(fs::temp_directory_path() / ("trainyard_data_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    const fs::path tree = TRAINYARD_SOURCE_DIRECTORY;
    for (const std::string_view part : data_folders()) {
      fs::create_directories((folder_ / part).parent_path());
      fs::copy(tree / part, folder_ / part, fs::copy_options::recursive);
    }
  }
  OwnData(const OwnData&) = delete;
  OwnData& operator=(const OwnData&) = delete;
  ~OwnData() { fs::remove_all(folder_); }
  [[nodiscard]] const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

// Does the cache ignore entries of other data or rows? An entry is valid only for its row, data and
// program.
TEST(Sample, ACacheGivesNoAnswerOfOtherDataOrRows) {
  const OwnData data;
  const ValidateOptions options{.cache = data.folder() / "answers.jsonl", .data = data.folder()};
  std::vector<MeasuredRow> rows = sample();
  rows.resize(1);
  const auto answers = [&] {
    std::ifstream lines(options.cache);
    return std::count(std::istreambuf_iterator<char>(lines), {}, '\n');
  };
  const auto predicted = [&] { return validate(rows, options).at(0).predicted_s; };
  const double before = predicted();
  EXPECT_EQ(predicted(), before);
  ASSERT_EQ(answers(), 1);

  const fs::path gpu = data.folder() / "kernels/profiles/a100_80gb.json";
  const std::string sheet = read_file(gpu);
  std::string slower = sheet;
  const std::string hbm = "\"2039 GB/s\"";
  ASSERT_NE(slower.find(hbm), std::string::npos);
  write_file(gpu, slower.replace(slower.find(hbm), hbm.size(), "\"1000 GB/s\""));
  EXPECT_GT(predicted(), before) << "with less bandwidth of memory";
  EXPECT_EQ(answers(), 2);

  write_file(gpu, sheet);
  EXPECT_EQ(predicted(), before);
  EXPECT_EQ(answers(), 2) << "the first answer holds again";

  rows[0].description["batch"]["global_batch"] = 8;
  EXPECT_GT(predicted(), 1.5 * before) << "two microbatches";
  EXPECT_EQ(answers(), 3);
}

}  // namespace
}  // namespace trainyard
