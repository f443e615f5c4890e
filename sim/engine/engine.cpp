#include "sim/engine/engine.hpp"

#include <algorithm>
#include <array>

#include "sim/base/check.hpp"
#include "sim/engine/deadlock.hpp"
#include "sim/engine/engine_programs.hpp"
#include "sim/engine/ideal/ideal.hpp"
#include "sim/engine/simgrid/simgrid_engine.hpp"
#include "sim/engine/steady_state.hpp"
#include "sim/engine/tick.hpp"

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

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const EngineEntry& engine : engines()) names.emplace_back(engine.name);
  return names;
}

// Three ways to play a step, tried in this order: the steady state of its pipeline, the whole step
// as asked, and, for the text of a deadlock, the whole step with recorded times. Without `known`,
// the regions and edges are found for this run alone.
Timeline Engine::run(const EngineInput& input) const {
  if (input.known == nullptr) {
    const ProgramAnalysis analysis(input.workload);
    EnginePrograms own(input.workload, analysis);
    EngineInput knowing = input;
    knowing.known = &own;
    return run(knowing);
  }
  if (std::optional<Timeline> steady = play_steady(input)) return *std::move(steady);
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

namespace {

// A host that runs ahead and a fault at a date are states that no times of operations show. Without
// times the whole step takes less time than some microbatches with times.
bool may_be_steady(const EngineInput& input) {
  return input.contract && input.record && input.hosts.empty() &&
         input.cluster.facts().timed_faults.empty();
}

}  // namespace

std::optional<Timeline> Engine::play_steady(const EngineInput& input) const {
  // Below this number the search for a period costs more than it saves.
  constexpr std::uint64_t kWorthwhile = 10'000;
  if (!may_be_steady(input)) return std::nullopt;
  const ShortStep* const step = input.known->short_step();
  if (step == nullptr || operations_left_out(*step, input.partition) < kWorthwhile)
    return std::nullopt;
  // The partition is that of the whole step: the shortened one has the same ranks, groups and
  // calls. So is the horizon, which sets the tick: the dates of both are then multiples of the same
  // number. may_be_steady() has made sure that `hosts`, `contract` and `record` have their
  // defaults.
  const EngineInput shorter{.cluster = input.cluster,
                            .workload = step->workload,
                            .partition = input.partition,
                            .kernel_seconds = input.kernel_seconds,
                            .progress = input.progress,
                            .stop = input.stop,
                            .compute_loss = input.compute_loss,
                            .communication_loss = input.communication_loss,
                            .known = step->programs.get(),
                            .horizon_s = horizon_of(input)};
  try {
    auto whole = lengthened(input.workload, input.partition, *step, play(shorter));
    if (!whole) input.known->forget_short_step();
    return whole;
  } catch (const Deadlock&) {
    return std::nullopt;  // the whole step says who waits for whom
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
