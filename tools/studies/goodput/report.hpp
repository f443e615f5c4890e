// The goodput of a job as text, JSON and CSV.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/studies/goodput/goodput.hpp"

namespace trainyard {

struct GoodputReport {
  std::string title;
  const Job& job;
  const Goodput& result;
  RunLength length = {};
  std::vector<Alternative> alternatives = {};  // the job itself is the first
};

[[nodiscard]] std::string goodput_text(const GoodputReport& report);
// The sentence on the range of the run that the error of the step leaves; empty where the step is
// no prediction of a real run.
[[nodiscard]] std::string range_sentence(const GoodputReport& report);
[[nodiscard]] nlohmann::ordered_json goodput_json(const GoodputReport& report);
[[nodiscard]] nlohmann::ordered_json alternatives_json(
    const std::vector<Alternative>& alternatives);
// One line for each sampled run: wall time, steps, goodput, the time of each phase, the
// interruptions of each cause.
[[nodiscard]] std::string goodput_csv(const GoodputReport& report);
// A page with the answer, where the time goes, what would help, and a sampled run as a calendar.
[[nodiscard]] std::string goodput_page(const GoodputReport& report,
                                       const std::vector<RunEvent>& events);

// One sampled run: a line for each event, with times in seconds.
[[nodiscard]] std::string events_csv(const std::vector<RunEvent>& events);
// The same as a Chrome trace in which a second is a day.
[[nodiscard]] nlohmann::ordered_json events_trace(const std::vector<RunEvent>& events);

}  // namespace trainyard
