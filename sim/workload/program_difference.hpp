// In what two programs differ first, in words, for those who ask why their ranks are not alike.
//
//   program_difference(workload, 3, 0);
//   // "operation 14 (expert_up): grouped_gemm 8x4096x7168 ..., not grouped_gemm 6x4096x7168 ..."
#pragma once

#include <cstdint>
#include <string>

#include "sim/workload/workload.hpp"

namespace trainyard {

// How `program` differs from `other`: its stage, the first operation that is not the same, or what
// it holds in memory. "nothing" for equal programs. REQUIRES: both are of the workload.
[[nodiscard]] std::string program_difference(const Workload& workload, std::uint32_t program,
                                             std::uint32_t other);

}  // namespace trainyard
