// A study of a collective as text: nccl-tests' columns for each algorithm, then who wins where.
#pragma once

#include <string>

#include "scenarios/collective/study.hpp"

namespace trainyard {

// `place` says where it ran: "2 x dgx_h100, rail_optimized".
[[nodiscard]] std::string collective_text(const CollectiveStudy& study, const std::string& place);

}  // namespace trainyard
