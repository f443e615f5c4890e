#include "sim/engine/engine.hpp"

#include <algorithm>
#include <array>

#include "sim/base/check.hpp"
#include "sim/engine/deadlock.hpp"
#include "sim/engine/engine_programs.hpp"
#include "sim/engine/ideal/ideal.hpp"
#include "sim/engine/simgrid/simgrid_engine.hpp"

namespace trainyard {

std::span<const EngineEntry> engines() {
  static constexpr std::array<EngineEntry, 2> kEngines = {{
      {"simgrid", "transfers alive together share links by max-min fairness (SimGrid)",
       [] { return make_simgrid_engine({}); }},
      {"ideal", "every transfer has its links for itself: fast; a lower bound without interference",
       &make_ideal_engine},
  }};
  return kEngines;
}

Timeline Engine::run(const EngineInput& input) const {
  if (input.known == nullptr) {
    const ProgramAnalysis analysis(input.workload);
    EnginePrograms own(input.workload, analysis);
    EngineInput knowing = input;
    knowing.known = &own;
    return run(knowing);
  }
  try {
    return play(input);
  } catch (const Deadlock&) {
    if (input.record) throw;
    // The error text needs the times to name who waits for whom, so the run is repeated with them.
    EngineInput recorded = input;
    recorded.record = true;
    return play(recorded);
  }
}

std::unique_ptr<Engine> make_engine(std::string_view name) {
  const auto entry =
      std::find_if(engines().begin(), engines().end(),
                   [&](const EngineEntry& candidate) { return candidate.name == name; });
  TY_CHECK(entry != engines().end(), name);
  return entry->make();
}

}  // namespace trainyard
