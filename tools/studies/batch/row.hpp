// A row of a batch (batch.hpp): its inputs and its result as a flat list of paths and scalars, and
// the key figures that tables and plots take from it.
//
//    key, scenario (file), set (path: value as given)
//    fingerprint  if the journal has a state; not in the row of a worker that crashed
//    status       "fits", "does_not_fit", "deadlock" (the run cannot proceed),
//                 "refused" (bad input) or "crashed"
//    message      why there is no result; null if there is one
//    inputs       the resolved scenario, flattened ("parallelism.tensor": 8); null without a result
//    result       its scalars, flattened ("step_time_s", "memory.0.peak_bytes"); null without one
//
//    RowFigures f = row_figures(journal.rows().front());
//    f.ran; f.step_time_s; f.peak_bytes;
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/report/interval.hpp"

namespace trainyard {

// A JSON value as paths and scalars: flattened({{"model", {{"layers", 2}}}}) is {"model.layers":
// 2}. Keys are joined by '.', and elements of arrays have their index as key. Empty objects and
// arrays leave nothing. A scalar at the top has the empty path.
[[nodiscard]] nlohmann::ordered_json flattened(const nlohmann::ordered_json& value);

enum class RunStatus : std::uint8_t { Fits, DoesNotFit, Deadlock, Refused, Crashed };
inline constexpr Words<RunStatus, 5> kRunStatus{{{RunStatus::Fits, "fits"},
                                                 {RunStatus::DoesNotFit, "does_not_fit"},
                                                 {RunStatus::Deadlock, "deadlock"},
                                                 {RunStatus::Refused, "refused"},
                                                 {RunStatus::Crashed, "crashed"}}};

struct RowFigures {
  RunStatus status = RunStatus::Crashed;
  bool ran = false;  // there is a result: the first two statuses
  double step_time_s = 0.0;
  std::optional<double> tokens_per_s_per_gpu = {};
  std::optional<double> mfu = {};
  double peak_bytes = 0.0;      // of the stage that needs most memory
  double capacity_bytes = 0.0;  // of its GPU; 0: not known
  // largest share of a GPU's capacity that any stage needs; 0: no capacity is known
  double fullest_share = 0.0;
  // The figures of a step, where the scenario has a block `power`; the cost where it gives prices.
  std::optional<double> energy_kwh = {};
  std::optional<double> cost = {};
  std::optional<StepInterval> interval = {};  // of the step time
};
[[nodiscard]] RowFigures row_figures(const nlohmann::ordered_json& row);

// A number of a row's result by its flattened path ("links.0.busy_fraction"). The path "peak_bytes"
// is the peak of the worst stage. There is no value if the row does not have the number.
[[nodiscard]] std::optional<double> row_number(const nlohmann::ordered_json& row,
                                               std::string_view path);

// Returns the setup that rows share, in words: model, cluster, batch, precision, each with its
// name. A value that differs between the rows is "several". Rows without inputs do not count.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> shared_setup(
    const std::vector<const nlohmann::ordered_json*>& rows);

// The breakdown of a row as the mean over its ranks, in seconds, in the order of the result's keys.
[[nodiscard]] std::vector<std::pair<std::string, double>> mean_breakdown(
    const nlohmann::ordered_json& row);

}  // namespace trainyard
