// What the script of a page reads: the timeline's blocks and the memory curves, as JSON.
//
//   {"step_s": 13.2, "names": [...], "kinds": [{"name", "colour"}],
//    "lanes": [{"title", "streams": [...], "blocks": [[start_ns, length_ns, kind, stream,
//               microbatch, layer, name, operations], ...]}],
//    "memory": [{"title", "capacity_gib", "time_s": [...], "gib": [[...] per category]}],
//    "categories": [{"name", "colour"}], "joined": true}
#pragma once

#include <nlohmann/json.hpp>

#include "sim/report/run_view.hpp"

namespace trainyard {

// At most about 60,000 blocks: where there are more operations, those of one kind and microbatch
// are joined ("joined"), and of very many stages some are shown. Memory curves have at most 1,000
// points each, the highest of what each stands for.
[[nodiscard]] nlohmann::json page_data(const RunView& view);

}  // namespace trainyard
