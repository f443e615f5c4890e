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

// Returns "8 leaf_spine, such as leaf 0 -> spine 0".
[[nodiscard]] std::string links_text(const Result& run, std::uint32_t link_class);

}  // namespace trainyard
