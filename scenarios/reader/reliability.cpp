#include "scenarios/reader/reliability.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

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

constexpr Words<FailureKind, 3> kKinds{{{FailureKind::Fatal, "fatal"},
                                        {FailureKind::Transient, "transient"},
                                        {FailureKind::Planned, "planned"}}};
constexpr Words<FailingComponent, 4> kComponents{{{FailingComponent::Gpu, "gpu"},
                                                  {FailingComponent::Nic, "nic"},
                                                  {FailingComponent::Node, "node"},
                                                  {FailingComponent::Job, "job"}}};
constexpr Words<FailurePolicy, 2> kPolicies{
    {{FailurePolicy::Restart, "restart"}, {FailurePolicy::Elastic, "elastic"}}};
constexpr Words<RepairDistribution, 3> kRepairs{{{RepairDistribution::Fixed, "fixed"},
                                                 {RepairDistribution::Exponential, "exponential"},
                                                 {RepairDistribution::Lognormal, "lognormal"}}};

// A number of bytes, or of bytes per second, that may be absent.
template <class Owner, auto member>
Own<Owner> optional_bytes() {
  return {[](JsonObject& object, std::string_view key, Owner& owner) {
            if (object.has(key)) owner.*member = object.bytes(key);
          },
          [](const Owner& owner) {
            return owner.*member ? Json(exact_text(*(owner.*member))) : Json();
          }};
}
template <class Owner, auto member>
Own<Owner> optional_rate() {
  return {[](JsonObject& object, std::string_view key, Owner& owner) {
            if (object.has(key)) owner.*member = object.rate(key);
          },
          [](const Owner& owner) {
            return owner.*member ? Json(exact_text(*(owner.*member))) : Json();
          }};
}

using F = FailureProcess;
const Field<F> kFailures[] = {
    {"cause", "what fails, for reports", Text<F>{&F::cause, true}},
    {"kind",
     "fatal: the job restarts; transient: all ranks wait; planned: the job saves and restarts",
     word_of<F, &F::kind, kKinds>()},
    {"component", "part that fails; the job counts as one part",
     word_of<F, &F::component, kComponents>()},
    {"events", "number of events in component_days", Real<F>{&F::events, 0.0, kEventsMost}},
    {"component_days", "days of all components together in which the events were counted",
     Real<F>{&F::component_days, 0.0, kEventsMost}},
    {"weibull_shape",
     "shape of the Weibull distribution of the times between the job's events; 1: exponential",
     Real<F>{&F::weibull_shape, 0.1, 10.0}},
    {"replaces_node", "fatal: the node goes to repair and another one replaces it",
     Flag<F>{&F::replaces_node}},
    {"detect", "time to detect this cause, in place of that of recovery",
     OptionalTime<F>{&F::detect}},
    {"diagnose", "time to diagnose this cause, in place of that of recovery",
     OptionalTime<F>{&F::diagnose}},
    {"duration", "transient: mean duration, exponentially distributed",
     OptionalTime<F>{&F::duration}},
    {"give_up", "transient: one that lasts longer stops the job", OptionalTime<F>{&F::give_up}},
    {"source", "where the count is printed", Text<F>{&F::source}},
};

using C = CheckpointSettings;
const Field<C> kCheckpoint[] = {
    {"bytes", "of one checkpoint; without it, weights and optimizer state of the memory model",
     optional_bytes<C, &C::bytes>()},
    {"write_rate", "rate at which the whole job writes", optional_rate<C, &C::write_rate>()},
    {"read_rate", "rate at which the whole job reads", optional_rate<C, &C::read_rate>()},
    {"stall", "time that training stops for each checkpoint; without it, bytes over write_rate",
     OptionalTime<C>{&C::stall}},
    {"write",
     "time of the write beside training, after the stall; without it, bytes over write_rate where "
     "stall is given",
     OptionalTime<C>{&C::write}},
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
            }}},
    {"interval_steps", "steps between checkpoints, in place of interval; 0: not given",
     Whole<C>{&C::interval_steps, 0}},
    {"source", "where the figures are printed", Text<C>{&C::source}},
};

using R = RecoverySettings;
const Field<R> kRecovery[] = {
    {"detect", "time from a failure to its detection", OptionalTime<R>{&R::detect}},
    {"diagnose", "time to find what to replace", OptionalTime<R>{&R::diagnose}},
    {"start", "time to start the processes", OptionalTime<R>{&R::start}},
    {"communicator_init", "time to initialise the communicators",
     OptionalTime<R>{&R::communicator_init}},
    {"warm_up", "time of compilation and of the first slow steps", OptionalTime<R>{&R::warm_up}},
    {"source", "where the figures are printed", Text<R>{&R::source}},
};

using S = SpareSettings;
const Field<S> kSpares[] = {
    {"nodes", "nodes that stand by", Whole<S>{&S::nodes, 0}},
    {"replace", "time until a node that stands by has replaced a failed one",
     OptionalTime<S>{&S::replace}},
    {"cold_replace", "time until a node from elsewhere has, where none stands by",
     OptionalTime<S>{&S::cold_replace}},
    {"repair", "mean time until a failed node stands by", OptionalTime<S>{&S::repair}},
    {"repair_distribution", "distribution of the time of a repair",
     word_of<S, &S::repair_distribution, kRepairs>()},
    {"repair_sigma", "lognormal: standard deviation of the logarithm of the time",
     Real<S>{&S::repair_sigma, 0.0, 5.0}},
    {"source", "where the figures are printed", Text<S>{&S::source}},
};

// An object within the block, with its own table.
template <auto member, class Part, const auto& fields>
Own<Reliability> part() {
  return {[](JsonObject& object, std::string_view key, Reliability& owner) {
            if (!object.has(key)) return;
            JsonObject inner = object.object(key);
            owner.*member = read_fields<Part>(inner, fields, Part{});
          },
          [](const Reliability& owner) { return write_fields<Part>(fields, owner.*member); }};
}

void read_failures(JsonObject& object, std::string_view key, Reliability& owner) {
  for (JsonObject& entry : object.objects(key))
    owner.failures.push_back(read_fields<F>(entry, kFailures, F{}));
}

Json write_failures(const Reliability& owner) {
  Json list = Json::array();
  for (const F& one : owner.failures) list.push_back(write_fields<F>(kFailures, one));
  return list;
}

const Field<Reliability> kReliability[] = {
    {"title", "what the block describes", Text<Reliability>{&Reliability::title}},
    {"source", "where its figures come from", Text<Reliability>{&Reliability::source}},
    {"failures", "causes of interruptions with their counts",
     Own<Reliability>{read_failures, write_failures}},
    {"checkpoint", "how checkpoints are written and read",
     part<&Reliability::checkpoint, C, kCheckpoint>()},
    {"recovery", "phases from a failure until training goes on",
     part<&Reliability::recovery, R, kRecovery>()},
    {"spares", "nodes that replace failed ones", part<&Reliability::spares, S, kSpares>()},
    {"policy",
     "where no node replaces a failed one: wait for one (restart), or go on with fewer replicas "
     "and a smaller global batch (elastic)",
     word_of<Reliability, &Reliability::policy, kPolicies>()},
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
  Reliability all = read_fields<Reliability>(root, kReliability, {});
  file.finish();
  return all;
}

Json reliability_json(const Reliability& reliability) {
  return write_fields<Reliability>(kReliability, reliability);
}

Json reliability_schema() {
  Json schema = schema_of_fields<Reliability>(kReliability, {});
  Json& properties = schema["properties"];
  const auto describe = [&](const char* key, Json part) {
    Json json{{"description", properties[key]["description"]}};
    json.update(part);
    properties[key] = std::move(json);
  };
  describe("failures", {{"type", "array"}, {"items", schema_of_fields<F>(kFailures, {})}});
  describe("checkpoint", schema_of_fields<C>(kCheckpoint, {}));
  describe("recovery", schema_of_fields<R>(kRecovery, {}));
  describe("spares", schema_of_fields<S>(kSpares, {}));
  properties["preset"] = {
      {"description",
       "a name of models/reliability/data, or the path of a .json file; the block replaces its "
       "fields"},
      {"type", "string"}};
  return schema;
}

namespace {

void check_failure(const Check& check, std::size_t index, const FailureProcess& failure) {
  const std::string at = fmt::format("/reliability/failures/{}", index);
  const bool transient = failure.kind == FailureKind::Transient;
  if (failure.events > 0.0 && failure.component_days <= 0.0)
    check.file.report(at + "/component_days", "events without the time in which they were counted",
                      "give the days of all components together: 16384 GPUs in 54 days are 884736");
  if (transient && !failure.duration)
    check.file.report(at + "/duration", "is missing for a transient failure",
                      "give the mean time until it passes, such as \"5 s\"");
  if (!transient && (failure.duration || failure.give_up))
    check.file.report(at + (failure.duration ? "/duration" : "/give_up"),
                      "only a transient failure passes by itself",
                      "leave it out, or set kind to transient");
}

void check_replacement(const Check& check, const Reliability& all) {
  const SpareSettings& spares = all.spares;
  if (spares.nodes > 0 && !spares.replace)
    check.file.report("/reliability/spares/replace", "spares without a replacement time",
                      "give the time until one has replaced a failed node, such as \"60 s\"");
  const bool loses =
      std::any_of(all.failures.begin(), all.failures.end(), [](const FailureProcess& failure) {
        return failure.kind == FailureKind::Fatal && failure.replaces_node && failure.events > 0.0;
      });
  if (loses && !spares.cold_replace && !spares.repair)
    check.file.report("/reliability/spares",
                      "failed nodes are never replaced once no spare is left",
                      "give repair or cold_replace, or set replaces_node of the failures to false");
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
  if (!checkpoint.stall && !checkpoint.write_rate)
    check.file.report("/reliability/checkpoint", "how long a checkpoint takes is missing",
                      "give stall, or write_rate");
}

}  // namespace

void check_reliability(const Check& check) {
  if (!check.scenario.reliability || !check.file.is_sound("/reliability")) return;
  const Reliability& all = *check.scenario.reliability;
  for (std::size_t i = 0; i < all.failures.size(); ++i) check_failure(check, i, all.failures[i]);
  check_replacement(check, all);
  check_checkpoint(check, all.checkpoint);
  if (all.policy == FailurePolicy::Elastic && check.parallelism && check.sizes().data < 2)
    check.file.report("/reliability/policy", "elastic needs replicas, and data is 1",
                      "set policy to restart, or parallelism.data to 2 or more");
}

}  // namespace trainyard
