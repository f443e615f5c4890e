// Reports of studies of collectives: which algorithm is quickest at which size and where that
// changes, and the rows as text with the columns of nccl-tests, as JSON and as CSV.
//
//   std::vector<Winner> best = winners(study);
//   say("{}", collective_text(study, "2 x dgx_h100, rail_optimized"));
//   write_file("study.json", study_json(study).dump(2));
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/studies/collective/interference.hpp"
#include "tools/studies/collective/measured.hpp"
#include "tools/studies/collective/study.hpp"

namespace trainyard {

struct Winner {
  std::int64_t bytes = 0;
  std::size_t algorithm = 0;          // index into CollectiveStudy::algorithms
  std::optional<std::size_t> second;  // the next best; nothing where there is no other
};
// The winner of each size. The first of algorithms that are equal to 1e-9 wins. Empty where all
// were refused.
[[nodiscard]] std::vector<Winner> winners(const CollectiveStudy& study);

// The winner at `above` is another than at `below`, the size before it.
struct Crossover {
  std::size_t from = 0;
  std::size_t to = 0;
  std::int64_t below = 0;
  std::int64_t above = 0;
  // Where the straight lines through their two times meet. Exact for algorithms whose time is
  // latency + size / rate, and a guess within [below, above] for one that changes between them.
  double bytes = 0.0;
};
[[nodiscard]] std::vector<Crossover> crossovers(const CollectiveStudy& study);

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

// `place` says where it ran: "2 x dgx_h100, rail_optimized". `measured`: nullptr, or the times that
// stand beside the predicted ones.
[[nodiscard]] std::string collective_text(const CollectiveStudy& study, const std::string& place,
                                          const MeasuredTimes* measured = nullptr);

[[nodiscard]] std::string interference_text(const InterferenceStudy& study,
                                            const std::string& place);

// For programs: op, algorithm, groups, ranks, size_bytes, alone_us, together_us, slowdown,
// busbw_alone_GBps, busbw_together_GBps, shared_link, shared_by, shared_link_load.
[[nodiscard]] nlohmann::ordered_json interference_json(const InterferenceStudy& study);
[[nodiscard]] std::string interference_csv(const InterferenceStudy& study);

}  // namespace trainyard
