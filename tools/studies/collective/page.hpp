// Studies of collectives as HTML pages that open from disk: bus bandwidth as a chart over size or
// over nodes, and the rows as tables that sort.
//
//    write_file("page.html", collective_page(study, "2 x dgx_h100, rail_optimized", nullptr));
#pragma once

#include <span>
#include <string>

#include "tools/studies/collective/interference.hpp"
#include "tools/studies/collective/measured.hpp"
#include "tools/studies/collective/scaling.hpp"
#include "tools/studies/collective/study.hpp"

namespace trainyard {

// `place` names the cluster. `measured` is nullptr, or the times that the page shows next to the
// predicted ones.
[[nodiscard]] std::string collective_page(const CollectiveStudy& study, const std::string& place,
                                          const MeasuredTimes* measured);
[[nodiscard]] std::string interference_page(const InterferenceStudy& study,
                                            const std::string& place);
[[nodiscard]] std::string scaling_page(std::span<const ScaledStudy> studies,
                                       const std::string& place);

}  // namespace trainyard
