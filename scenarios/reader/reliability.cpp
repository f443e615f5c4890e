#include "scenarios/reader/reliability.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "scenarios/reader/named_parts.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/field.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/words.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFolder = "models/reliability/data";
constexpr std::string_view kOptimal = "optimal";
constexpr double kEventsMost = 1e12;
constexpr double kMisdiagnosisMost = 0.99;
constexpr double kTokensMost = 1e18;

constexpr Words<FailureKind, 5> kKinds{{{FailureKind::Fatal, "fatal"},
                                        {FailureKind::Transient, "transient"},
                                        {FailureKind::Planned, "planned"},
                                        {FailureKind::Degrading, "degrading"},
                                        {FailureKind::Silent, "silent"}}};
constexpr Words<FailingComponent, 9> kComponents{{{FailingComponent::Gpu, "gpu"},
                                                  {FailingComponent::Nic, "nic"},
                                                  {FailingComponent::Cable, "cable"},
                                                  {FailingComponent::Node, "node"},
                                                  {FailingComponent::Leaf, "leaf"},
                                                  {FailingComponent::Spine, "spine"},
                                                  {FailingComponent::Rack, "rack"},
                                                  {FailingComponent::Storage, "storage"},
                                                  {FailingComponent::Job, "job"}}};
constexpr Words<FailurePolicy, 6> kPolicies{{{FailurePolicy::Restart, "restart"},
                                             {FailurePolicy::Elastic, "elastic"},
                                             {FailurePolicy::Mirrored, "mirrored"},
                                             {FailurePolicy::Redundant, "redundant"},
                                             {FailurePolicy::Reroute, "reroute"},
                                             {FailurePolicy::Backup, "backup"}}};
constexpr Words<RepairDistribution, 3> kRepairs{{{RepairDistribution::Fixed, "fixed"},
                                                 {RepairDistribution::Exponential, "exponential"},
                                                 {RepairDistribution::Lognormal, "lognormal"}}};

// A list of objects, each with the fields of a table; an empty one is not written.
template <class Owner, auto member, const auto& fields>
constexpr Own<Owner> list() {
  using Part = typename std::decay_t<decltype(std::declval<Owner>().*member)>::value_type;
  return {[](JsonObject& object, std::string_view key, Owner& owner) {
            for (JsonObject& entry : object.objects(key))
              (owner.*member).push_back(read_fields<Part>(entry, fields, Part{}));
          },
          [](const Owner& owner) {
            Json parts = Json::array();
            for (const Part& one : owner.*member) parts.push_back(write_fields<Part>(fields, one));
            return parts.empty() ? Json() : parts;
          },
          [](const Owner&) -> Json {
            return {{"type", "array"}, {"items", schema_of_fields<Part>(fields, {})}};
          }};
}

// An object with the fields of a table.
template <auto member, class Part, const auto& fields>
constexpr Own<Reliability> part() {
  return {[](JsonObject& object, std::string_view key, Reliability& owner) {
            if (!object.has(key)) return;
            JsonObject inner = object.object(key);
            owner.*member = read_fields<Part>(inner, fields, Part{});
          },
          [](const Reliability& owner) { return write_fields<Part>(fields, owner.*member); },
          [](const Reliability&) { return schema_of_fields<Part>(fields, {}); }};
}

using F = FailureProcess;
const Field<F> kFailures[] = {
    {"cause", "what fails, for reports", Text<F>{&F::cause, true}},
    {"kind",
     "fatal: the job restarts; transient: all ranks wait; planned: the job saves and restarts; "
     "degrading: a part is slower; silent: results are wrong until that is found",
     word_of<F, &F::kind, kKinds>()},
    {"component",
     "part that fails; a GPU has its memory and NVLink, a node its host and disks; storage and the "
     "job count as one part",
     word_of<F, &F::component, kComponents>()},
    {"events", "number of events in component_days", Real<F>{&F::events, 0.0, kEventsMost}},
    {"component_days", "days of all components together in which the events were counted",
     Real<F>{&F::component_days, 0.0, kEventsMost}},
    {"weibull_shape",
     "shape of the Weibull distribution of the times between the job's events; 1: exponential",
     Real<F>{&F::weibull_shape, 0.1, 10.0}},
    {"replaces_node",
     "the node goes to repair and another one replaces it; a slow one once it is found",
     Flag<F>{&F::replaces_node}},
    {"nodes",
     "nodes side by side that one event takes; without it one, and all below a leaf or in a rack",
     OptionalWhole<F>{&F::nodes}},
    {"rate_left", "degrading: share of its speed that a GPU or link has left",
     Real<F>{&F::rate_left, 0.0, 1.0}},
    {"detect",
     "time to detect this cause, in place of that of recovery; a slow part or a wrong result that "
     "has none is found by health checks alone",
     OptionalTime<F>{&F::detect}},
    {"diagnose", "time to diagnose this cause, in place of that of recovery",
     OptionalTime<F>{&F::diagnose}},
    {"duration",
     "mean, exponentially distributed: of a transient failure, and until a slow part recovers; "
     "without it a part stays slow until it is replaced",
     OptionalTime<F>{&F::duration}},
    {"give_up", "transient: one that lasts longer stops the job", OptionalTime<F>{&F::give_up}},
    {"source", "where the count is printed", Text<F>{&F::source}},
};

using Near = NearCheckpoint;
const Field<Near> kNear[] = {
    {"name", "of the level, for reports", Text<Near>{&Near::name, true}},
    {"copies",
     "nodes that hold each part: with 1, losing a node loses the checkpoint; with more, losing as "
     "many that hold the same part",
     Whole<Near>{&Near::copies}},
    {"interval_steps", "steps between two", Whole<Near>{&Near::interval_steps}},
    {"write_rate", "rate at which each node copies its share",
     OptionalRate<Near>{&Near::write_rate}},
    {"read_rate", "rate at which each node reads its share", OptionalRate<Near>{&Near::read_rate}},
    {"stall", "time that training stops; without it, the share of a node over write_rate",
     OptionalTime<Near>{&Near::stall}},
    {"write",
     "time of the copy beside training; without it, the share over write_rate where stall is given",
     OptionalTime<Near>{&Near::write}},
    {"drag", "by which that copy delays training", OptionalTime<Near>{&Near::drag}},
    {"load", "time to read it; without it, the share of a node over read_rate",
     OptionalTime<Near>{&Near::load}},
    {"capacity", "of each node, which holds two checkpoints", OptionalBytes<Near>{&Near::capacity}},
    {"source", "where the figures are printed", Text<Near>{&Near::source}},
};

using C = CheckpointSettings;
const Field<C> kCheckpoint[] = {
    {"bytes", "of one checkpoint; without it, weights and optimizer state of the memory model",
     OptionalBytes<C>{&C::bytes}},
    {"write_rate", "rate at which the whole job writes", OptionalRate<C>{&C::write_rate}},
    {"read_rate", "rate at which the whole job reads", OptionalRate<C>{&C::read_rate}},
    {"node_rate", "rate at which each node writes or reads its share",
     OptionalRate<C>{&C::node_rate}},
    {"one_replica_writes", "one replica writes, not all of them a share each",
     Flag<C>{&C::one_replica_writes}},
    {"metadata", "time of the file system for each checkpoint", OptionalTime<C>{&C::metadata}},
    {"stall", "time that training stops for each checkpoint; without it, bytes over write_rate",
     OptionalTime<C>{&C::stall}},
    {"write",
     "time of the write beside training, after the stall; without it, bytes over write_rate where "
     "stall is given",
     OptionalTime<C>{&C::write}},
    {"drag", "by which the write beside training delays it", OptionalTime<C>{&C::drag}},
    {"load", "time to read a checkpoint; without it, bytes over read_rate",
     OptionalTime<C>{&C::load}},
    {"interval", "training time between checkpoints, or optimal",
     Own<C>{[](JsonObject& object, std::string_view key, C& owner) {
              if (!object.has(key)) return;
              const Json& value = object.raw(key);
              owner.interval = value.is_string() && value.get<std::string>() == kOptimal
                                   ? std::nullopt
                                   : std::optional(object.time(key));
            },
            [](const C& owner) -> Json {
              return owner.interval ? exact_text(*owner.interval) : std::string(kOptimal);
            },
            [](const C&) -> Json {
              return {{"type", "string"},
                      {"anyOf", {{{"const", kOptimal}}, {{"pattern", time_pattern()}}}}};
            }}},
    {"interval_steps", "steps between checkpoints, in place of interval; 0: not given",
     Whole<C>{&C::interval_steps, 0}},
    {"kept", "checkpoints that storage keeps; 0: all", Whole<C>{&C::kept, 0}},
    {"near", "checkpoints closer than storage, the quickest first", list<C, &C::near, kNear>()},
    {"source", "where the figures are printed", Text<C>{&C::source}},
};

using R = RecoverySettings;
const Field<R> kRecovery[] = {
    {"detect", "time from a failure to its detection", OptionalTime<R>{&R::detect}},
    {"diagnose", "time to find what to replace", OptionalTime<R>{&R::diagnose}},
    {"queue", "mean wait for the scheduler, exponentially distributed", OptionalTime<R>{&R::queue}},
    {"start", "time to start the processes", OptionalTime<R>{&R::start}},
    {"communicator_init", "time to initialise the communicators",
     OptionalTime<R>{&R::communicator_init}},
    {"warm_up", "time of compilation and of the first slow steps", OptionalTime<R>{&R::warm_up}},
    {"reconfigure",
     "policies that train on without a node: time until the others do, and to take one in",
     OptionalTime<R>{&R::reconfigure}},
    {"misdiagnosis",
     "probability that the diagnosis takes a sound node out, so that the job fails again as soon "
     "as it has restarted",
     Real<R>{&R::misdiagnosis, 0.0, kMisdiagnosisMost}},
    {"gpus", "GPUs of the job that start and communicator_init are of; 0: of every job",
     Whole<R>{&R::gpus, 0}},
    {"start_per_doubling", "by which start grows with each doubling of the GPUs",
     OptionalTime<R>{&R::start_per_doubling}},
    {"communicator_init_per_doubling", "by which communicator_init grows with each doubling",
     OptionalTime<R>{&R::communicator_init_per_doubling}},
    {"source", "where the figures are printed", Text<R>{&R::source}},
};

using Spares = SpareSettings;
const Field<Spares> kSpares[] = {
    {"nodes", "nodes that stand by", Whole<Spares>{&Spares::nodes, 0}},
    {"replace", "time until a node that stands by has replaced a failed one",
     OptionalTime<Spares>{&Spares::replace}},
    {"cold_replace", "time until a node from elsewhere has, where none stands by",
     OptionalTime<Spares>{&Spares::cold_replace}},
    {"cold_nodes", "nodes elsewhere, to which as many repaired ones go back; 0: no limit",
     Whole<Spares>{&Spares::cold_nodes, 0}},
    {"repair", "mean time until a failed node stands by", OptionalTime<Spares>{&Spares::repair}},
    {"repair_distribution", "distribution of the time of a repair",
     word_of<Spares, &Spares::repair_distribution, kRepairs>()},
    {"repair_sigma", "lognormal: standard deviation of the logarithm of the time",
     Real<Spares>{&Spares::repair_sigma, 0.0, 5.0}},
    {"manual_share", "of the failed nodes, those that need a second repair, by hand",
     Real<Spares>{&Spares::manual_share, 0.0, 1.0}},
    {"manual_repair", "mean time of that second repair",
     OptionalTime<Spares>{&Spares::manual_repair}},
    {"source", "where the figures are printed", Text<Spares>{&Spares::source}},
};

using L = LemonSettings;
const Field<L> kLemons[] = {
    {"share", "of the nodes, those that fail more often", Real<L>{&L::share, 0.0, 1.0}},
    {"multiple",
     "rate of their failures over that of the others; the rates of the failures are "
     "means over all nodes",
     Real<L>{&L::multiple, 1.0, 1e6}},
    {"evict_after", "failures after which a sound node takes its place; 0: never",
     Whole<L>{&L::evict_after, 0}},
    {"cured", "probability that a repair makes one of them sound", Real<L>{&L::cured, 0.0, 1.0}},
    {"source", "where the figures are printed", Text<L>{&L::source}},
};

using Pause = PauseSettings;
const Field<Pause> kPauses[] = {
    {"cause", "for reports", Text<Pause>{&Pause::cause, true}},
    {"every_steps", "steps between two, for which the job stays: evaluation",
     Whole<Pause>{&Pause::every_steps, 0}},
    {"every", "calendar time between two, for which the job stops: maintenance",
     OptionalTime<Pause>{&Pause::every}},
    {"limit", "time after its start at which the job stops: the time limit of a job",
     OptionalTime<Pause>{&Pause::limit}},
    {"duration", "of the pause", OptionalTime<Pause>{&Pause::duration}},
    {"source", "where the figures are printed", Text<Pause>{&Pause::source}},
};

using TrainingPhase = PhaseSettings;  // a phase of training
const Field<TrainingPhase> kPhases[] = {
    {"from_tokens", "tokens of the run that are trained before it begins",
     Real<TrainingPhase>{&TrainingPhase::from_tokens, 0.0, kTokensMost}},
    {"global_batch_size", "sequences in a step from then on; 0: those of training",
     Whole<TrainingPhase>{&TrainingPhase::global_batch_size, 0, kLengthMost}},
    {"sequence_length", "tokens in a sequence from then on; 0: those of training",
     Whole<TrainingPhase>{&TrainingPhase::sequence_length, 0, kLengthMost}},
    {"interval_steps",
     "steps between checkpoints in storage from then on; 0: as the checkpoint says",
     Whole<TrainingPhase>{&TrainingPhase::interval_steps, 0}},
    {"source", "where the figures are printed", Text<TrainingPhase>{&TrainingPhase::source}},
};

using H = HealthCheckSettings;
const Field<H> kHealthCheck[] = {
    {"every", "training time between two checks", OptionalTime<H>{&H::every}},
    {"duration", "of a check, for which training stops", OptionalTime<H>{&H::duration}},
    {"coverage", "probability that one check finds a slow part or a wrong result",
     Real<H>{&H::coverage, 1e-6, 1.0}},
    {"source", "where the figures are printed", Text<H>{&H::source}},
};

void read_health_check(JsonObject& object, std::string_view key, Reliability& owner) {
  if (!object.has(key)) return;
  JsonObject inner = object.object(key);
  owner.health_check = read_fields<H>(inner, kHealthCheck, H{});
}

Json write_health_check(const Reliability& owner) {
  return owner.health_check ? write_fields<H>(kHealthCheck, *owner.health_check) : Json();
}

Json health_check_schema(const Reliability&) { return schema_of_fields<H>(kHealthCheck, {}); }

const Field<Reliability> kReliability[] = {
    {"title", "what the block describes", Text<Reliability>{&Reliability::title}},
    {"source", "where its figures come from", Text<Reliability>{&Reliability::source}},
    {"failures", "causes of interruptions with their counts",
     list<Reliability, &Reliability::failures, kFailures>()},
    {"rate_factor", "factor on the rates of all failures",
     Real<Reliability>{&Reliability::rate_factor, 0.0, 1e9}},
    {"lemons", "nodes that fail more often than the others",
     part<&Reliability::lemons, L, kLemons>()},
    {"checkpoint", "how checkpoints are written and read",
     part<&Reliability::checkpoint, C, kCheckpoint>()},
    {"recovery", "phases from a failure until training goes on",
     part<&Reliability::recovery, R, kRecovery>()},
    {"spares", "nodes that replace failed ones", part<&Reliability::spares, Spares, kSpares>()},
    {"pauses", "pauses that are no failures: evaluation, maintenance, time limits",
     list<Reliability, &Reliability::pauses, kPauses>()},
    {"phases",
     "parts of the run with another batch or sequence length, such as a ramp of the batch; before "
     "the first, training holds",
     list<Reliability, &Reliability::phases, kPhases>()},
    {"health_check", "checks for slow parts and wrong results",
     Own<Reliability>{read_health_check, write_health_check, health_check_schema}},
    {"policy",
     "without a failed node: restart waits for another; elastic restarts with fewer replicas; "
     "mirrored, redundant, reroute and backup train on (docs/how_to/goodput.md)",
     word_of<Reliability, &Reliability::policy, kPolicies>()},
    {"backup_replicas", "policy backup: replicas that a step does not need",
     Whole<Reliability>{&Reliability::backup_replicas, 0}},
    {"nodes_per_rack", "for failures of racks; 0: not given",
     Whole<Reliability>{&Reliability::nodes_per_rack, 0}},
};

// Returns the text of a preset as a document.
Json preset(const std::string& name) {
  const std::filesystem::path file = data_file(kFolder, name);
  return parse_json(file.string(), read_file(file));
}

}  // namespace

std::vector<std::string> reliability_presets() { return data_names(kFolder); }

Reliability read_reliability(JsonObject& root, const std::filesystem::path& folder) {
  const Json& value = root.raw("reliability");
  const bool named = value.is_object() && value.contains("preset") && value["preset"].is_string();
  if (!named) {
    JsonObject object = root.object("reliability");
    return read_fields<Reliability>(object, kReliability, {});
  }
  try {
    const Json base = preset(located(folder, value["preset"].get<std::string>()));
    JsonObject object = root.object_over("reliability", base, "preset");
    return read_fields<Reliability>(object, kReliability, {});
  } catch (const InputError& error) {
    root.ignore("reliability");
    for (const Problem& problem : error.problems())
      root.report("reliability", problem.problem, problem.hint);
    return {};
  }
}

Reliability load_reliability(const std::string& name_or_path) {
  JsonFile file = JsonFile::read(data_file(kFolder, name_or_path));
  JsonObject root = file.root();
  auto all = read_fields<Reliability>(root, kReliability, {});
  file.finish();
  return all;
}

Json reliability_json(const Reliability& reliability) {
  return write_fields<Reliability>(kReliability, reliability);
}

Json reliability_schema() {
  Json schema = schema_of_fields<Reliability>(kReliability, {});
  schema["properties"]["preset"] = {
      {"description",
       "a name of models/reliability/data, or the path of a .json file; the block replaces its "
       "fields"},
      {"type", "string"}};
  return schema;
}

namespace {

void check_failure(const Check& check, std::size_t index, const FailureProcess& failure) {
  const std::string at = fmt::format("/reliability/failures/{}", index);
  const Reliability& all = *check.scenario.reliability;
  const bool transient = failure.kind == FailureKind::Transient;
  const bool degrading = failure.kind == FailureKind::Degrading;
  if (failure.events > 0.0 && failure.component_days <= 0.0)
    check.file.report(at + "/component_days", "events without the time in which they were counted",
                      "give the days of all components together: 16384 GPUs in 54 days are 884736");
  if (transient && !failure.duration)
    check.file.report(at + "/duration", "is missing for a transient failure",
                      "give the mean time until it passes, such as \"5 s\"");
  if ((!transient && !degrading && failure.duration) || (!transient && failure.give_up))
    check.file.report(at + (failure.duration && !degrading ? "/duration" : "/give_up"),
                      "only a transient failure passes by itself",
                      "leave it out, or set kind to transient");
  if (failure.component == FailingComponent::Rack && all.nodes_per_rack == 0)
    check.file.report("/reliability/nodes_per_rack", "is missing for failures of racks",
                      "give the number of nodes in a rack");
}

void check_hidden_failure(const Check& check, std::size_t index, const FailureProcess& failure) {
  const std::string at = fmt::format("/reliability/failures/{}", index);
  const Reliability& all = *check.scenario.reliability;
  if (failure.kind == FailureKind::Silent && !failure.detect && !all.health_check)
    check.file.report(at + "/detect", "a wrong result that nobody finds",
                      "give the time until it is found, or a health_check");
  const bool can_slow = failure.component == FailingComponent::Gpu ||
                        failure.component == FailingComponent::Nic ||
                        failure.component == FailingComponent::Node;
  if (failure.kind != FailureKind::Degrading) return;
  if (!can_slow)
    check.file.report(at + "/component", "only a gpu, a nic or a node becomes slower",
                      "choose one of them");
  if (failure.rate_left <= 0.0)
    check.file.report(at + "/rate_left", "is missing for a part that becomes slower",
                      "give the share of its speed that is left, such as 0.5; a part without any "
                      "has failed: kind fatal");
}

void check_pauses(const Check& check, const Reliability& all) {
  for (std::size_t i = 0; i < all.pauses.size(); ++i) {
    const PauseSettings& pause = all.pauses[i];
    const int given =
        (pause.every_steps > 0 ? 1 : 0) + (pause.every ? 1 : 0) + (pause.limit ? 1 : 0);
    const std::string at = fmt::format("/reliability/pauses/{}", i);
    if (given != 1)
      check.file.report(at, fmt::format("{} intervals are given", given),
                        "give one of every_steps, every and limit");
    if (pause.limit && pause.limit->value() <= 0.0)
      check.file.report(at + "/limit", "is no time in which the job could train",
                        "give the time limit of the job, such as \"24 h\"");
    if (!pause.duration && !pause.limit)
      check.file.report(at + "/duration", "is missing", "give a time, such as \"10 min\"");
    if (pause.every && pause.duration && *pause.duration >= *pause.every)
      check.file.report(at + "/duration", "is longer than the time between two pauses",
                        "shorten it, or lengthen every");
  }
}

// The rules of batch and sequence hold in each phase. What they say of a field of training is said
// of that field of the phase. A mistake of the scenario itself is not reported again.
void check_training_of_phase(const Check& check, const std::string& at,
                             const PhaseSettings& phase) {
  if (check.file.has_problems()) return;
  Scenario scenario = check.scenario;
  Training& training = scenario.plan.training;
  if (phase.global_batch_size > 0) training.global_batch_size = phase.global_batch_size;
  if (phase.sequence_length > 0) training.sequence_length = phase.sequence_length;
  // An empty document has no problem yet, so each rule applies and its problems are told apart from
  // those of the file.
  JsonFile rules = JsonFile::parse(check.file.name(), "{}");
  const Check of_phase{rules, scenario};
  for (const auto rule : {check_batch, check_sequence, check_context, check_schedule_shape})
    rule(of_phase);
  if (!rules.has_problems()) return;
  try {
    rules.finish();
  } catch (const InputError& error) {
    constexpr std::string_view kTraining = "/training";
    for (const Problem& problem : error.problems()) {
      const bool of_field = problem.pointer.starts_with(kTraining);
      check.file.report(of_field ? at + problem.pointer.substr(kTraining.size()) : at,
                        problem.problem, problem.hint);
    }
  }
}

// A phase says what is different, and from when on.
void check_phases(const Check& check, const Reliability& all) {
  for (std::size_t i = 0; i < all.phases.size(); ++i) {
    const PhaseSettings& phase = all.phases[i];
    const std::string at = fmt::format("/reliability/phases/{}", i);
    if (phase.global_batch_size == 0 && phase.sequence_length == 0 && phase.interval_steps == 0)
      check.file.report(at, "nothing is different in this phase",
                        "give global_batch_size, sequence_length or interval_steps");
    check_training_of_phase(check, at, phase);
    if (i > 0 && phase.from_tokens <= all.phases[i - 1].from_tokens)
      check.file.report(at + "/from_tokens", "is not after that of the phase above it",
                        "list the phases in the order of time");
  }
}

void check_health_check(const Check& check, const Reliability& all) {
  if (!all.health_check) return;
  if (!all.health_check->every || all.health_check->every->value() <= 0.0)
    check.file.report("/reliability/health_check/every", "is missing",
                      "give the training time between two checks, such as \"1 h\"");
  if (!all.health_check->duration)
    check.file.report("/reliability/health_check/duration", "is missing",
                      "give the time of a check, such as \"30 s\"");
}

void check_replacement(const Check& check, const Reliability& all) {
  const SpareSettings& spares = all.spares;
  if (spares.nodes > 0 && !spares.replace)
    check.file.report("/reliability/spares/replace", "spares without a replacement time",
                      "give the time until one has replaced a failed node, such as \"60 s\"");
  const bool loses =
      std::any_of(all.failures.begin(), all.failures.end(), [](const FailureProcess& failure) {
        // A slow part that is found, and a wrong result, take their node out too.
        const bool takes_node = failure.kind == FailureKind::Fatal ||
                                failure.kind == FailureKind::Degrading ||
                                failure.kind == FailureKind::Silent;
        return takes_node && failure.replaces_node && failure.events > 0.0;
      });
  const bool without_end = spares.cold_replace && spares.cold_nodes == 0;
  if (loses && !without_end && !spares.repair)
    check.file.report("/reliability/spares",
                      "failed nodes are never replaced once no spare is left",
                      "give repair or cold_replace, or set replaces_node of the failures to false");
  if (spares.cold_nodes > 0 && !spares.cold_replace)
    check.file.report("/reliability/spares/cold_nodes", "nodes elsewhere that replace nothing",
                      "give cold_replace, the time until one of them has replaced a failed node");
  if (spares.manual_share > 0.0 && (!spares.manual_repair || !spares.repair))
    check.file.report("/reliability/spares/manual_share",
                      "a second repair without the time of both repairs",
                      "give repair and manual_repair, such as \"2 h\" and \"48 h\"");
  if (all.policy == FailurePolicy::Elastic && !spares.repair)
    check.file.report("/reliability/spares/repair",
                      "policy elastic needs the time after which a lost replica returns",
                      "give the mean time of a repair, such as \"24 h\"");
}

void check_checkpoint(const Check& check, const CheckpointSettings& checkpoint) {
  if (checkpoint.interval && checkpoint.interval_steps > 0)
    check.file.report("/reliability/checkpoint/interval_steps",
                      "interval and interval_steps are both given",
                      "leave one out, or set interval to optimal or interval_steps to 0");
  if (checkpoint.interval && checkpoint.interval->value() <= 0.0)
    check.file.report("/reliability/checkpoint/interval", "must be more than no time",
                      "give a time such as \"10 min\", or optimal");
  if (checkpoint.interval && checkpoint.write && *checkpoint.write > *checkpoint.interval)
    check.file.report("/reliability/checkpoint/write",
                      fmt::format("{} is longer than the interval of {}, so writes would pile up",
                                  to_text(*checkpoint.write), to_text(*checkpoint.interval)),
                      "lengthen interval, or write faster");
  if (!checkpoint.stall && !checkpoint.write_rate && !checkpoint.node_rate)
    check.file.report("/reliability/checkpoint", "how long a checkpoint takes is missing",
                      "give stall, write_rate or node_rate");
  for (std::size_t i = 0; i < checkpoint.near.size(); ++i) {
    const NearCheckpoint& near = checkpoint.near[i];
    if (!near.stall && !near.write_rate)
      check.file.report(fmt::format("/reliability/checkpoint/near/{}", i),
                        "how long this checkpoint takes is missing", "give stall, or write_rate");
  }
}

void check_policy(const Check& check, const Reliability& all) {
  if (!check.parallelism) return;
  const auto needs = [&](bool has, std::string_view what, const char* remedy) {
    if (has) return;
    check.file.report("/reliability/policy",
                      fmt::format("{} needs {}", word_for(kPolicies, all.policy), what), remedy);
  };
  const std::int64_t data = check.sizes().data;
  if (all.policy == FailurePolicy::Elastic || all.policy == FailurePolicy::Reroute)
    needs(data > 1, "replicas, and data is 1",
          "set policy to restart, or parallelism.data to 2 or more");
  if (all.policy == FailurePolicy::Redundant)
    needs(check.sizes().pipeline > 1, "a pipeline, and pipeline is 1",
          "set policy to restart, or parallelism.pipeline to 2 or more");
  if (all.policy == FailurePolicy::Backup)
    needs(all.backup_replicas > 0 && all.backup_replicas < data,
          "backup_replicas between 1 and data - 1",
          "set reliability.backup_replicas, or policy to restart");
}

}  // namespace

void check_reliability(const Check& check) {
  if (!check.scenario.reliability || !check.file.is_sound("/reliability")) return;
  const Reliability& all = *check.scenario.reliability;
  for (std::size_t i = 0; i < all.failures.size(); ++i) {
    check_failure(check, i, all.failures[i]);
    check_hidden_failure(check, i, all.failures[i]);
  }
  check_pauses(check, all);
  check_phases(check, all);
  check_health_check(check, all);
  check_replacement(check, all);
  check_checkpoint(check, all.checkpoint);
  check_policy(check, all);
}

}  // namespace trainyard
