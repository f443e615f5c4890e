// The goodput of a job as text, JSON and CSV.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/studies/goodput/goodput.hpp"

namespace trainyard {

struct GoodputReport {
  std::string title;
  const Job& job;
  const Goodput& result;
  RunLength length = {};
  std::optional<double> price_per_gpu_hour = {};  // in any currency
};

[[nodiscard]] std::string goodput_text(const GoodputReport& report);
[[nodiscard]] nlohmann::ordered_json goodput_json(const GoodputReport& report);
// One line for each sampled run: wall time, steps, goodput, the time of each phase, the
// interruptions of each cause.
[[nodiscard]] std::string goodput_csv(const GoodputReport& report);

}  // namespace trainyard
