#include "scenarios/simulate/refusals.hpp"

#include <fmt/format.h>

#include <string>

#include "sim/base/error.hpp"

namespace trainyard {

namespace {

// Returns the first line below the headline: the operation that has waited longest, and its
// partner.
std::string longest_wait(const std::string& deadlock) {
  constexpr std::size_t kIndent = 3;  // "\n  "
  const std::size_t begin = deadlock.find('\n');
  if (begin == std::string::npos) return deadlock;
  const std::size_t end = deadlock.find('\n', begin + 1);
  return deadlock.substr(begin + kIndent, end == std::string::npos ? end : end - begin - kIndent);
}

}  // namespace

void name_refused_choice(const Scenario& scenario, const RefusedCall& refused) {
  if (refused.field.empty()) return;
  throw InputError({.file = scenario.file,
                    .pointer = refused.field,
                    .problem = refused.what(),
                    .hint = refused.field == CollectiveChoice::kNcclField
                                ? "an algorithm for a single operation is alone in its group: "
                                  "{\"data\": {\"all_reduce\": \"tree\"}}"
                                : ""});
}

void refuse_blocked_sends(const Scenario& scenario, const Deadlock& deadlock) {
  const Parallelism& p = scenario.plan.parallelism;
  if (p.overlap_p2p || p.pipeline == 1) return;
  throw InputError(
      {.file = scenario.file,
       .pointer = "/parallelism/overlap_p2p",
       .problem = fmt::format("{} cannot go on where false lets messages hold up their stage: {}",
                              p.schedule, longest_wait(deadlock.what())),
       .hint = "set overlap_p2p to true"});
}

}  // namespace trainyard
