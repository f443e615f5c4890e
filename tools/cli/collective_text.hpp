// Studies of collectives as text: nccl-tests' columns for each algorithm, then who wins where; and
// groups at once, with what each takes alone and together.
#pragma once

#include <string>

#include "tools/studies/collective/interference.hpp"
#include "tools/studies/collective/measured.hpp"
#include "tools/studies/collective/study.hpp"

namespace trainyard {

// `place` says where it ran: "2 x dgx_h100, rail_optimized". `measured`: nullptr, or the times that
// stand beside the predicted ones.
[[nodiscard]] std::string collective_text(const CollectiveStudy& study, const std::string& place,
                                          const MeasuredTimes* measured = nullptr);

[[nodiscard]] std::string interference_text(const InterferenceStudy& study,
                                            const std::string& place);

}  // namespace trainyard
