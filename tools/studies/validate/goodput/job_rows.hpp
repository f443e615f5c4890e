// Published slowdowns of jobs that share a fabric, against the range of predictions over what the
// source does not state.
//
// Such a source states little: models by name, a step time alone, a step time beside others. Each
// row of data/job_rows.json of the study `validate` describes the jobs and lists, for each setting
// that is not stated, the values that it may have. All combinations are simulated. Those in which
// the step alone is not near the stated one are left out.
//
//    for (const JobRow& row : predict_jobs(entry)) use(row.least, row.most);
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trainyard {

struct JobRow {
  std::string id;
  std::string figure;  // "throughput of gpt"
  std::string quality = {}, source = {};
  double published = 0.0;
  double least = 0.0;  // of the predictions
  double most = 0.0;
  std::size_t cases = 0;       // combinations whose step alone is near the stated one
  std::size_t considered = 0;  // all combinations
  std::string supposed = {};

  [[nodiscard]] bool contains() const { return least <= published && published <= most; }
};

// Whether data/job_rows.json describes the row.
[[nodiscard]] bool describes_jobs(const std::string& id);

// Predicts a row {id, setup, measured, source, quality}. Throws InputError for a data file that is
// malformed. REQUIRES: describes_jobs(id).
[[nodiscard]] std::vector<JobRow> predict_jobs(const nlohmann::ordered_json& entry);

// A table and what was supposed; empty without rows.
[[nodiscard]] std::string job_rows_text(const std::vector<JobRow>& rows);
[[nodiscard]] nlohmann::ordered_json job_rows_json(const std::vector<JobRow>& rows);

}  // namespace trainyard
