#include "tools/studies/run_log/log_job.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/reader/checks.hpp"
#include "scenarios/reader/overrides.hpp"
#include "scenarios/reader/reliability.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_reader.hpp"
#include "tools/studies/goodput/scenario_job.hpp"

namespace trainyard {

// The block goes through JSON and the reader of scenarios, so a change has the names, limits and
// messages that it has in a scenario.
Reliability with_changes(const RunLog& log, const Reliability& reliability,
                         const std::vector<Override>& changes) {
  nlohmann::ordered_json document{{"reliability", reliability_json(reliability)}};
  for (const Override& change : changes) document = with_override(document, change);
  try {
    JsonFile file = JsonFile::parse(log.file, document.dump());
    JsonObject root = file.root();
    Scenario scenario;
    scenario.reliability = read_reliability(root, {});
    check_reliability(Check{.file = file, .scenario = scenario});
    file.finish();
    return *scenario.reliability;
  } catch (const InputError& error) {
    throw InputError(attribute_to_overrides(error.problems(), changes));
  }
}

namespace {

// A log has one step, and its model is not known: nothing simulates another one.
void refuse_other_steps(const RunLog& log, const Reliability& reliability) {
  const auto refuse = [&log](const std::string& pointer, const char* problem, const char* hint) {
    throw InputError(Problem{
        .file = log.file, .pointer = "/reliability" + pointer, .problem = problem, .hint = hint});
  };
  if (!reliability.phases.empty())
    refuse("/phases", "a log does not say how long the steps of other phases take",
           "leave phases out, or use trainyard goodput SCENARIO");
  for (std::size_t i = 0; i < reliability.failures.size(); ++i)
    if (reliability.failures[i].kind == FailureKind::Degrading)
      refuse(fmt::format("/failures/{}/kind", i),
             "a log does not say how long a step with a slow part takes",
             "take another kind, or use trainyard goodput SCENARIO");
}

}  // namespace

Job job_of_log(const RunLog& log, const LogFit& fit, const Reliability& reliability) {
  refuse_other_steps(log, reliability);
  if (!fit.step_s)
    throw InputError(Problem{.file = log.file,
                             .pointer = {},
                             .problem = "has no steps, so the time of a step is not known",
                             .hint = "leave out --steps, --tokens and --replay, or give a log with "
                                     "steps"});
  Scenario scenario;
  scenario.file = log.file;
  scenario.cluster.nodes = static_cast<std::uint32_t>(std::max<std::int64_t>(1, log.nodes));
  if (log.gpus_per_node > 0)
    scenario.cluster.node.gpus = static_cast<std::uint32_t>(log.gpus_per_node);
  scenario.reliability = reliability;
  // The times of the block hold without a model, so a checkpoint needs no bytes.
  if (!reliability.checkpoint.bytes) scenario.reliability->checkpoint.bytes = Bytes{0.0};
  Job job = job_with_step(scenario, *fit.step_s);
  // A log does not tell the layout, so all nodes count as one replica.
  job.nodes_per_replica = scenario.cluster.nodes;
  return job;
}

const CauseFit* fitted_cause(const LogFit& fit, const InterruptionCause& cause) {
  const auto found = std::ranges::find_if(fit.causes, [&](const CauseFit& one) {
    return one.cause == cause.name && one.kind == cause.kind;
  });
  return found == fit.causes.end() ? nullptr : &*found;
}

}  // namespace trainyard
