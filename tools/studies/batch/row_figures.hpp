// The key figures of a row of a batch (batch.hpp), for tables and plots.
//
//   RowFigures f = row_figures(journal.rows().front());
//   f.ran; f.step_time_s; f.peak_bytes;
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/words.hpp"

namespace trainyard {

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
