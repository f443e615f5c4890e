// A workload in a page: its programs and groups, counted.
#pragma once

#include <string>

#include "sim/workload/workload.hpp"

namespace trainyard {

[[nodiscard]] std::string workload_table(const Workload& workload);

}  // namespace trainyard
