// The interval of a predicted step time, from the errors of predictions of measured runs.
//
// A step is divided into shares whose time is uncertain for different reasons: kernels by their
// width, experts, collectives within and between nodes, the host, the software. The relative
// deviation of each is in models/uncertainty/steps.json. `trainyard validate --left-out
// --intervals FILE` fits that file to measured runs (tools/studies/validate/interval_fit.hpp).
//
//    const std::optional<StepInterval> interval = step_interval(scenario, result.view());
//    interval->low_s();   // 11.2
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/report/interval.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

enum class Uncertain : std::uint8_t {
  Gemms8,
  Gemms4,
  Experts,      // grouped GEMMs, and permutations of their tokens
  WithinNodes,  // collectives that nothing hides, of groups within a node
  BetweenNodes,
  Dispatch,  // exchange of tokens among experts that nothing hides
  Host,
  Software,      // the whole step: other kernels, versions, settings and habits of the framework
  NewFramework,  // the whole step, where no run of the framework was measured
  SiblingGpu,    // kernels priced by measurements of another GPU with the same chip
  SheetGpu       // kernels priced by measurements of another chip, scaled by data sheets
};
inline constexpr std::size_t kUncertainKinds = 11;

// The texts of a kind: its key in the table, its name, and what would make it certain.
struct UncertainKind {
  std::string_view key;
  std::string_view name;
  std::string_view remedy;
};
[[nodiscard]] const UncertainKind& texts_of(Uncertain kind);

// The share of each kind in a step, by Uncertain. Shares overlap: the whole step is one of them.
using UncertainShares = std::array<double, kUncertainKinds>;

// The table of deviations.
struct Uncertainty {
  std::array<double, kUncertainKinds> deviation = {};  // of the logarithm of each kind's time
  double correlation = 0.0;                            // of one kind in two runs
  std::size_t runs = 0;
  std::size_t sources = 0;
  std::vector<std::string> frameworks = {};  // with measured runs
};
// Reads models/uncertainty/steps.json. Throws InputError.
[[nodiscard]] Uncertainty load_uncertainty();

// The shares of a run, as of a framework with measured runs.
[[nodiscard]] UncertainShares uncertain_shares(const Scenario& scenario, const RunView& view);

// Returns nothing for scenarios with ideal defaults, which correspond to no real run. Throws
// InputError where the table is malformed.
[[nodiscard]] std::optional<StepInterval> step_interval(const Scenario& scenario,
                                                        const RunView& view);

}  // namespace trainyard
