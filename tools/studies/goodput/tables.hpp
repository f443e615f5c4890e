// The tables of a goodput report, for its text and its page.
#pragma once

#include <string>

#include "sim/render/text_table.hpp"
#include "tools/studies/goodput/report.hpp"

namespace trainyard {

[[nodiscard]] TextTable summary_table(const GoodputReport& report);
// The phases of Job::phases, with their steps.
[[nodiscard]] TextTable training_phase_table(const GoodputReport& report);
[[nodiscard]] TextTable phase_table(const GoodputReport& report);
[[nodiscard]] TextTable cause_table(const GoodputReport& report);
[[nodiscard]] TextTable halved_table(const GoodputReport& report);
[[nodiscard]] TextTable interval_table(const GoodputReport& report);
[[nodiscard]] TextTable alternative_table(const std::vector<Alternative>& alternatives);

// "54.00 days", or smaller units.
[[nodiscard]] std::string time_text(double seconds);
[[nodiscard]] std::string kind_text(FailureKind kind);

}  // namespace trainyard
