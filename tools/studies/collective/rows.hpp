// A study as JSON rows and as CSV, for programs.
//
//   write_file("study.json", study_json(study).dump(2));
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/studies/collective/measured.hpp"
#include "tools/studies/collective/study.hpp"

namespace trainyard {

// Elements as nccl-tests counts them: of the whole buffer, or of one rank's part for all_gather,
// reduce_scatter and all_to_all.
[[nodiscard]] std::int64_t element_count(const CollectiveStudy& study, std::int64_t bytes);

// One object for each algorithm that runs and each size: op, algorithm, protocol (what "nccl"
// chose, else null), ranks, size_bytes, time_us, algbw_GBps, busbw_GBps, bottleneck. Beside
// measured times also measured_time_us, measured_busbw_GBps and error (predicted / measured - 1),
// null for sizes that were not measured.
[[nodiscard]] nlohmann::ordered_json study_json(const CollectiveStudy& study,
                                                const MeasuredTimes* measured = nullptr);

// The same rows with the count, the latency and the most loaded link.
[[nodiscard]] std::string study_csv(const CollectiveStudy& study,
                                    const MeasuredTimes* measured = nullptr);

}  // namespace trainyard
