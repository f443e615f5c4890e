// The report on several jobs of one cluster, as text, as JSON and as an HTML page.
//
//    const Jobs jobs = load_jobs("two_jobs.json", {});
//    fmt::print("{}", jobs_text(jobs, simulate_jobs(jobs)));
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "scenarios/jobs/simulate_jobs.hpp"
#include "sim/render/text_table.hpp"

namespace trainyard {

[[nodiscard]] std::string jobs_text(const Jobs& jobs, const JobsResult& result);
[[nodiscard]] nlohmann::ordered_json jobs_json(const Jobs& jobs, const JobsResult& result);
[[nodiscard]] std::string jobs_page(const Jobs& jobs, const JobsResult& result);

// The parts of the text that the page has as well.
[[nodiscard]] TextTable jobs_table(const Jobs& jobs, const JobsResult& result);
[[nodiscard]] TextTable memory_table(const Jobs& jobs, const JobsResult& result);
[[nodiscard]] TextTable shared_links_table(const JobsResult& result);
// Says which steps the figures are of.
[[nodiscard]] std::string steps_sentence(const JobsResult& result);
// Says what the cluster draws, or which job has no block `power`; empty where none has.
[[nodiscard]] std::string power_sentence(const Jobs& jobs, const JobsResult& result);

}  // namespace trainyard
