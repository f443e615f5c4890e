// A fitted log as text and JSON: phases, failure rates, lemon nodes, recovery, forecast, replay.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/studies/run_log/forecast.hpp"
#include "tools/studies/run_log/log_fit.hpp"
#include "tools/studies/run_log/replay.hpp"

namespace trainyard {

struct FitReport {
  const RunLog& log;
  const LogFit& fit;
  FitPrior prior = {};
  std::optional<Forecast> forecast = {};
  std::optional<Replay> replay = {};
};

[[nodiscard]] std::string fit_text(const FitReport& report);
[[nodiscard]] nlohmann::ordered_json fit_json(const FitReport& report);

}  // namespace trainyard
