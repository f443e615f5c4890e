#include <algorithm>

#include "sim/report/stage_summary.hpp"
#include "tools/cli/command.hpp"

namespace trainyard {

Exit verdict(const RunView& view) {
  const std::vector<StageMemory> stages = stage_memory(view);
  const bool fits = std::all_of(stages.begin(), stages.end(),
                                [](const StageMemory& stage) { return stage.fits; });
  const std::optional<HostMemory> host = host_memory(view);
  return fits && (!host || host->fits) ? Exit::Fine : Exit::RunSaysNo;
}

}  // namespace trainyard
