// A row of a batch (batch.hpp): its inputs and its result as a flat list of paths and scalars, and
// the key figures that tables and plots take of it.
//
//   key, scenario (file), set (path: value as given)
//   fingerprint  where the journal has a state; not in the row of a worker that crashed
//   status       "fits", "does_not_fit", "deadlock" (the run says no), "refused" (bad input) or
//                "crashed"
//   message      why there is no result; null where there is one
//   inputs       the resolved scenario, flattened ("parallelism.tensor": 8); null without a result
//   result       its scalars, flattened ("step_time_s", "memory.0.peak_bytes"); null without one
//
//   RowFigures f = row_figures(journal.rows().front());
//   f.ran; f.step_time_s; f.peak_bytes;
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/words.hpp"

namespace trainyard {

// A JSON value as paths and scalars: flattened({{"model", {{"layers", 2}}}}) is {"model.layers":
// 2}. Keys are joined by '.', the elements of arrays by number. Empty objects and arrays leave
// nothing; a scalar at the top has the empty path.
[[nodiscard]] nlohmann::ordered_json flattened(const nlohmann::ordered_json& value);

enum class RunStatus : std::uint8_t { Fits, DoesNotFit, Deadlock, Refused, Crashed };
inline constexpr Words<RunStatus, 5> kRunStatus{{{RunStatus::Fits, "fits"},
                                                 {RunStatus::DoesNotFit, "does_not_fit"},
                                                 {RunStatus::Deadlock, "deadlock"},
                                                 {RunStatus::Refused, "refused"},
                                                 {RunStatus::Crashed, "crashed"}}};

struct RowFigures {
  RunStatus status = RunStatus::Crashed;
  bool ran = false;  // there is a result: the first two
  double step_time_s = 0.0;
  std::optional<double> tokens_per_s_per_gpu = {};
  std::optional<double> mfu = {};
  double peak_bytes = 0.0;      // of the stage that needs most
  double capacity_bytes = 0.0;  // of its GPU; 0: not known
  double fullest_share = 0.0;   // most of a GPU's capacity that a stage needs; 0: none is known
};
[[nodiscard]] RowFigures row_figures(const nlohmann::ordered_json& row);

// A number of a row's result by its flattened path ("links.0.busy_fraction"), "peak_bytes" for the
// worst stage; nothing where the row has none.
[[nodiscard]] std::optional<double> row_number(const nlohmann::ordered_json& row,
                                               std::string_view path);

// Mean over the ranks of a row's breakdown, in seconds, in the order of the result's keys.
[[nodiscard]] std::vector<std::pair<std::string, double>> mean_breakdown(
    const nlohmann::ordered_json& row);

}  // namespace trainyard
