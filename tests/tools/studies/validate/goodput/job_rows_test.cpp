// Do ranges over what a source does not state contain its figures?
#include "tools/studies/validate/goodput/job_rows.hpp"

#include <gtest/gtest.h>

#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "tests/tools/studies/goodput/fixtures.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

Json published(const std::string& id) {
  for (const Json& row : parse_unchecked_json(read_file(kTree / "tests/measured/jobs.json")))
    if (row.at("id") == id) return row;
  return {};
}

TEST(JobRows, GptBesideBertIsWithinTheRange) {
  ASSERT_TRUE(describes_jobs("crux-gpt-bert"));
  EXPECT_FALSE(describes_jobs("cassini"));
  const Json entry = published("crux-gpt-bert");
  const std::vector<JobRow> rows = predict_jobs(entry);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].published, entry.at("measured").at("gpt_throughput").get<double>());
  EXPECT_EQ(rows[1].published, entry.at("measured").at("bert_throughput").get<double>());
  for (const JobRow& row : rows) {
    EXPECT_EQ(row.considered, 32U);
    EXPECT_GT(row.cases, 0U);
    EXPECT_LT(row.cases, row.considered) << "steps far from the stated one are left out";
    EXPECT_TRUE(row.contains()) << row.least << " to " << row.most;
    EXPECT_GT(row.least, -0.3);
  }
  EXPECT_NE(job_rows_text(rows).find("-9.9 %"), std::string::npos);
  EXPECT_EQ(job_rows_json(rows).at(1).at("within"), true);
}

}  // namespace
}  // namespace trainyard
