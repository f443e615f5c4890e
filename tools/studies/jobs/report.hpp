// The report on several jobs of one cluster, as text and as JSON.
//
//    const Jobs jobs = load_jobs("two_jobs.json", {});
//    fmt::print("{}", jobs_text(jobs, simulate_jobs(jobs)));
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "scenarios/jobs/simulate_jobs.hpp"

namespace trainyard {

[[nodiscard]] std::string jobs_text(const Jobs& jobs, const JobsResult& result);
[[nodiscard]] nlohmann::ordered_json jobs_json(const Jobs& jobs, const JobsResult& result);

}  // namespace trainyard
