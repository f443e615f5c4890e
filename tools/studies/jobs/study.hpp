// The study of `trainyard jobs`: looks for better starts and priorities where that is asked, and
// then simulates the best.
//
//    const JobsStudy study = jobs_study({.jobs = load_jobs("two_jobs.json", {}), .shift = 8});
//    fmt::print("{}", study.text);
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "scenarios/jobs/simulate_jobs.hpp"

namespace trainyard {

struct JobsQuestion {
  Jobs jobs = {};
  std::uint32_t shift = 0;  // starts to try for each job but the first; 0: none
  double priorities = 0.0;  // the share to try for each job, relative to the others; 0: none
  JobsOptions options = {};
};

struct JobsStudy {
  JobsResult result;
  nlohmann::ordered_json json;
  std::string text;
  Jobs jobs;  // with the starts and priorities found
};

[[nodiscard]] JobsStudy jobs_study(const JobsQuestion& question);

}  // namespace trainyard
