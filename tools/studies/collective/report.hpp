// Reports of collective studies: the quickest algorithm at each size and the sizes at which it
// changes, and all rows as text with the columns of nccl-tests, as JSON and as CSV.
//
//    std::vector<Winner> best = winners(study);
//    say("{}", collective_text(study, "2 x dgx_h100, rail_optimized"));
//    write_file("study.json", study_json(study).dump(2));
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/render/text_table.hpp"
#include "tools/studies/collective/interference.hpp"
#include "tools/studies/collective/measured.hpp"
#include "tools/studies/collective/study.hpp"

namespace trainyard {

struct Winner {
  std::int64_t bytes = 0;
  std::size_t algorithm = 0;          // index into CollectiveStudy::algorithms
  std::optional<std::size_t> second;  // the second best; no value if there is only one
};
// The winner of each size. Among algorithms that are equal to 1e-9 the first one wins. The result
// is empty if all algorithms were refused.
[[nodiscard]] std::vector<Winner> winners(const CollectiveStudy& study);

// Two neighbouring sizes, `below` and `above`, with different winners, `from` and `to`.
struct Crossover {
  std::size_t from = 0;
  std::size_t to = 0;
  std::int64_t below = 0;
  std::int64_t above = 0;
  // The size at which the straight lines through their two times intersect. It is exact for
  // algorithms whose time is latency + size / rate, and an estimate within [below, above] for an
  // algorithm that changes between the two sizes.
  double bytes = 0.0;
};
[[nodiscard]] std::vector<Crossover> crossovers(const CollectiveStudy& study);

// The number of elements as nccl-tests counts them: of the whole buffer, or of one rank's part for
// all_gather, reduce_scatter and all_to_all.
[[nodiscard]] std::int64_t element_count(const CollectiveStudy& study, std::int64_t bytes);

// One object for each algorithm that runs and each size: op, algorithm, protocol (the choice of
// "nccl", else null), ranks, size_bytes, time_us, algbw_GBps, busbw_GBps, bottleneck. With measured
// times also measured_time_us, measured_busbw_GBps and error (predicted / measured - 1), which are
// null for sizes that were not measured. interval_us are the times between which nine of ten
// measured calls lie, null where that is not known.
[[nodiscard]] nlohmann::ordered_json study_json(const CollectiveStudy& study,
                                                const MeasuredTimes* measured = nullptr);

// The same rows as CSV, with the count, the latency and the most loaded link.
[[nodiscard]] std::string study_csv(const CollectiveStudy& study,
                                    const MeasuredTimes* measured = nullptr);

// The report as text. `place` names the cluster: "2 x dgx_h100, rail_optimized". `measured` is
// nullptr, or the times that are printed next to the predicted ones.
[[nodiscard]] std::string collective_text(const CollectiveStudy& study, const std::string& place,
                                          const MeasuredTimes* measured = nullptr);

[[nodiscard]] std::string interference_text(const InterferenceStudy& study,
                                            const std::string& place);

// The tables and lines of these reports.
[[nodiscard]] TextTable algorithm_table(const CollectiveStudy& study,
                                        const AlgorithmStudy& algorithm,
                                        const MeasuredTimes* measured);
// Returns a sentence for each class of sizes on how far measured calls lie from such predictions;
// nothing where that is not known.
[[nodiscard]] std::vector<std::string> spread_lines(const AlgorithmStudy& algorithm);
[[nodiscard]] TextTable winners_table(const CollectiveStudy& study);
[[nodiscard]] std::vector<std::string> crossover_lines(const CollectiveStudy& study);
[[nodiscard]] std::string agreement_line(const AlgorithmStudy& algorithm,
                                         const MeasuredTimes& measured);
[[nodiscard]] TextTable interference_table(const InterferenceStudy& study);

// The groups for other programs: op, algorithm, groups, ranks, size_bytes, alone_us, together_us,
// slowdown, busbw_alone_GBps, busbw_together_GBps, shared_link, shared_by, shared_link_load.
[[nodiscard]] nlohmann::ordered_json interference_json(const InterferenceStudy& study);
[[nodiscard]] std::string interference_csv(const InterferenceStudy& study);

}  // namespace trainyard
