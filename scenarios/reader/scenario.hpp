// A scenario: what to simulate, read from a file, checked, with every default filled in.
//
//    Scenario s = load_scenario("scenarios/megatron/gpt3_175b_64xa100_selective.json", {});
//    s.plan.parallelism.tensor;   // 8
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/architecture/flops.hpp"
#include "models/host.hpp"
#include "models/plan.hpp"
#include "models/power/settings.hpp"
#include "models/reliability/reliability.hpp"
#include "sim/base/data_use.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

// A published result to compare with the prediction. Figures that were not published are absent.
struct Published {
  std::string source;
  std::optional<Seconds> step_time;
  std::optional<double> tokens_per_s_per_gpu;
  std::optional<FlopsPerSecond> model_flops_per_gpu;     // without recomputation
  std::optional<FlopsPerSecond> hardware_flops_per_gpu;  // with recomputation
  std::optional<double> mfu;                             // 0..1
  std::string note;
  bool operator==(const Published&) const = default;
};

// A field that the scenario leaves out and that a practice of its framework filled in.
struct AppliedDefault {
  std::string field;   // "parallelism.overlap_p2p"
  std::string value;   // as JSON
  std::string source;  // source of the practice
  bool operator==(const AppliedDefault&) const = default;
};

// The origin of fields that a scenario leaves out.
enum class Defaults : std::uint8_t { Framework, Ideal };

// Collectives as flows, or message by message.
enum class CollectiveModel : std::uint8_t { Fluid, Stepwise };

struct Scenario {
  std::string file;  // file that it was read from, for messages
  std::string description;
  std::vector<std::string> changes = {};  // the overrides, PATH=VALUE each, for reports
  std::string source;                     // where its settings come from
  // Settings that the source does not give and this file assumes.
  std::vector<std::string> assumptions;
  TrainingPlan plan;
  ClusterSpec cluster;
  std::string framework = "megatron";  // name in models/frameworks; plan.framework is read from it
  // The origin of fields that the file leaves out: the framework's practices (defaults.hpp), or the
  // values of this structure.
  Defaults defaults = Defaults::Framework;
  std::vector<AppliedDefault> applied_defaults = {};
  std::string host = "none";  // a name in models/hosts, a file, or "none"
  HostCosts host_costs = {};  // read from `host`
  std::string engine = "simgrid";
  CollectiveModel collective_model = CollectiveModel::Fluid;
  bool interference = true;  // communication takes SMs from concurrent computation
  bool stragglers = false;   // replicas wait for the slowest of them
  AttentionCount flops_convention = AttentionCount::Causal;
  std::uint64_t seed = 0;
  std::optional<Published> published;
  std::optional<Reliability> reliability =
      {};                                   // of the weeks around the step (tools/studies/goodput)
  std::optional<PowerSettings> power = {};  // caps and prices; absent: no energy is computed
  std::vector<OwnDataFile> own_files = {};  // files of the user that the scenario was read with
  bool operator==(const Scenario&) const = default;
};

// An override from the command line: a path, "parallelism.tensor" or "/parallelism/tensor", and a
// value as JSON (a bare word is a string).
struct Override {
  std::string path;
  std::string value;
};

// Reads a file, applies the overrides and checks the result. A relative path that does not exist is
// looked up in the data folders (sim/base/data_directory.hpp): "scenarios/first/two_gpus.json".
// One InputError holds all problems.
[[nodiscard]] Scenario load_scenario(const std::string& path,
                                     const std::vector<Override>& overrides);

// Reads and checks a document in memory, after the overrides; messages use `name` as the file name.
// Files that it names are looked up in the folder of `name`, then in the working folder. Throws
// InputError with all problems.
[[nodiscard]] Scenario read_scenario_document(const std::string& name,
                                              const nlohmann::ordered_json& document,
                                              const std::vector<Override>& overrides = {});

// Writes the scenario with every default; reading it again gives the same scenario.
[[nodiscard]] nlohmann::ordered_json resolved(const Scenario& scenario);

// Returns the JSON Schema (draft 2020-12) of a scenario file, generated from the reader's tables.
[[nodiscard]] nlohmann::ordered_json scenario_schema();

}  // namespace trainyard
