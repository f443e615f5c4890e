// The sections of the text summary, each a table with its heading. Reports print one of them, the
// summary prints all.
#pragma once

#include <string>

#include "sim/report/run_view.hpp"

namespace trainyard {

// "fits: 61.2 GiB of 79.6 GiB on the fullest stage (0); one step takes 13.21 s". One line.
[[nodiscard]] std::string verdict_line(const RunView& view);
[[nodiscard]] std::string figures_section(const RunView& view);
[[nodiscard]] std::string breakdown_section(const RunView& view);
[[nodiscard]] std::string memory_section(const RunView& view);
[[nodiscard]] std::string links_section(const RunView& view);
[[nodiscard]] std::string collectives_section(const RunView& view);
[[nodiscard]] std::string placement_section(const RunView& view);
[[nodiscard]] std::string costs_section(const RunView& view);
[[nodiscard]] std::string notes_section(const RunView& view);  // assumptions and approximations

}  // namespace trainyard
