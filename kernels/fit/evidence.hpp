// How fitted numbers and what speaks for them are written into a profile's JSON.
//
//   {{"unseen_shapes", errors_json(errors)}, {"data_grad_time", figure_json(figure)}}
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/fit/errors.hpp"
#include "kernels/fit/single_fit.hpp"
#include "sim/base/units.hpp"

namespace trainyard::fit {

using json = nlohmann::ordered_json;

inline constexpr const char* command = "fit_kernels measured/kernels kernels/profiles";
inline constexpr const char* csv_source = "ai-dynamo/aiconfigurator tables (Apache-2.0, NVIDIA)";

// Shares to four decimals; times to a nanosecond.
[[nodiscard]] double rounded(double x);
[[nodiscard]] Seconds rounded(Seconds t);
[[nodiscard]] json errors_json(const Errors& errors);
[[nodiscard]] json figure_json(const Figure& figure);
// "1 64 128".
[[nodiscard]] std::string axis_text(const std::vector<std::int64_t>& axis);

}  // namespace trainyard::fit
