// Reads a scenario: overrides first, then every section by its table, then the rules between
// sections.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "models/document_lengths.hpp"
#include "models/framework.hpp"
#include "models/host.hpp"
#include "models/schedules/schedule.hpp"
#include "scenarios/import/hf_config.hpp"
#include "scenarios/import/model_file.hpp"
#include "scenarios/reader/checks.hpp"
#include "scenarios/reader/defaults.hpp"
#include "scenarios/reader/named_parts.hpp"
#include "scenarios/reader/node_order.hpp"
#include "scenarios/reader/overrides.hpp"
#include "scenarios/reader/power.hpp"
#include "scenarios/reader/reliability.hpp"
#include "scenarios/reader/scenario.hpp"
#include "scenarios/reader/tables.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/data_use.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/collectives/custom/custom_algorithm.hpp"
#include "sim/collectives/profile/collective_profile.hpp"
#include "topologies/cluster_reader.hpp"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

Architecture load_named_model(JsonFile& file, const fs::path& folder, const std::string& name) {
  try {
    return load_model(located(folder, name));
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) {
      // A problem inside the model's file is reported with the name of that file.
      if (problem.pointer.empty()) {
        file.report("/model",
                    is_path(name) ? fmt::format("\"{}\": {}", name, problem.problem)
                                  : fmt::format("there is no model \"{}\"", name),
                    problem.hint);
      } else {
        file.report(std::vector{problem});
        file.report("/model", fmt::format("\"{}\" cannot be used", name));
      }
    }
    return {};
  }
}

Architecture read_model(JsonFile& file, JsonObject& root, const fs::path& folder) {
  constexpr std::string_view kWhat = "the name of a model, a path or an object with its shape";
  if (!root.has("model")) {
    (void)root.raw("model");
    root.report("model", "is missing", fmt::format("it must be {}", kWhat));
    return {};
  }
  const nlohmann::ordered_json& value = root.raw("model");
  if (value.is_object()) return read_architecture(root.object("model"));
  if (value.is_string()) return load_named_model(file, folder, value.get<std::string>());
  root.report("model", fmt::format("must be {}, not {}", kWhat, shown(value)));
  return {};
}

// A version must be text, because the number 2.20 would become 2.2.
nccl::Settings read_nccl(JsonObject object) {
  if (object.has("version") && object.raw("version").is_number()) {
    object.report("version", fmt::format("must be text, not {}", shown(object.raw("version"))),
                  "write \"2.27\"; after --set, v2.27");
    return {};
  }
  return read_fields(object, nccl_fields(), nccl::Settings{});
}

// Reads a name of the registry, a name with an argument ("parameter_server:4"), or a user's file.
std::string read_algorithm(JsonObject& group, CollectiveOp op) {
  const std::string operation(to_string(op));
  const nlohmann::ordered_json& word = group.raw(operation);
  try {
    if (word.is_string() && is_algorithm(op, word.get<std::string>())) {
      if (names_algorithm_file(word.get<std::string>()))
        note_data_file("collective algorithm", word.get<std::string>());
      if (word.get<std::string>().ends_with("-dedicated"))
        group.report(operation, "every member of a group has gradients, none can only serve",
                     "use parameter_server:4, whose servers are members as well");
      return word.get<std::string>();
    }
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) group.report(operation, to_text(problem));
    return word.get<std::string>();
  }
  return group.choice(operation, algorithm_names(op));
}

// Opens a file that a field names, and reports its problems at the field.
template <class Open>
void try_file(JsonObject& object, std::string_view key, const Open& open) {
  try {
    open();
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) object.report(key, to_text(problem));
  }
}

CollectiveChoice read_collectives(JsonObject object, const fs::path& folder) {
  CollectiveChoice choice;
  choice.profile =
      object.has("profile") ? file_near(folder, object.text("profile")) : std::string();
  if (!choice.profile.empty()) {
    try_file(object, "profile", [&] { (void)read_collective_profile(choice.profile); });
    note_data_file("collective profile", choice.profile);
  }
  choice.nccl = read_nccl(object.object("nccl"));
  for (const GroupKind kind : group_kinds()) {
    const std::string name(to_string(kind));
    if (!object.has(name)) continue;
    JsonObject group = object.object(name);
    for (const CollectiveOp op : chosen_operations()) {
      const std::string operation(to_string(op));
      if (!group.has(operation)) continue;
      choice.algorithm[kind][op] = read_algorithm(group, op);
    }
  }
  return choice;
}

void read_recipe(JsonFile& file, TrainingPlan& plan) {
  if (!file.is_sound("/training/recipe") || !file.is_sound("/training/optimizer")) return;
  try {
    plan.recipe = load_recipe(plan.training.recipe);
    plan.optimizer = load_optimizer(plan.training.optimizer);
  } catch (const InputError& error) {
    file.report(error.problems());
  }
}

// Derives the precision in which gradients are sent from the recipe, if the recipe determines the
// bytes of gradients. Where the scenario sets it too, both must agree.
void settle_gradients(JsonFile& file, TrainingPlan& plan) {
  if (!plan.recipe.gradient_bytes || !file.is_sound("/training")) return;
  const bool chosen = file.document().contains("/training/gradient_precision"_json_pointer);
  Training& training = plan.training;
  const double kept = *plan.recipe.gradient_bytes;
  const auto refuse = [&](const char* field, DataType dtype, const char* hint) {
    file.report(fmt::format("/training/{}", field),
                fmt::format("recipe \"{}\" keeps gradients in {} bytes, {} takes {}",
                            training.recipe, kept, to_string(dtype), element_bytes(dtype)),
                hint);
  };
  if (!chosen && element_bytes(training.precision) == kept)
    training.gradient_precision = training.precision;
  else if (!chosen)
    refuse("recipe", training.precision, "set precision to bf16 or fp16, or take another recipe");
  else if (element_bytes(training.gradient_precision) != kept)
    refuse("gradient_precision", training.gradient_precision,
           "leave it out, or take another recipe");
}

// Only a recipe whose tensors share one scale has a choice of scaling.
void check_scaling(JsonFile& file, const TrainingPlan& plan) {
  if (!file.is_sound("/training") || plan.recipe.tensor_scales) return;
  if (plan.training.fp8_scaling == Fp8Scaling::Delayed) return;
  file.report("/training/fp8_scaling",
              fmt::format("recipe \"{}\" has no scale for a whole tensor", plan.training.recipe),
              "set recipe to fp8 or fp8_cached, or leave fp8_scaling out");
}

void read_framework(JsonFile& file, Scenario& scenario) {
  if (!file.is_sound("/framework")) return;
  try {
    scenario.plan.framework = load_framework(scenario.framework);
    scenario.plan.gradient_passes = load_gradient_passes(scenario.framework);
    scenario.plan.elementwise_kernels =
        load_elementwise_kernels(scenario.framework, scenario.plan.training.compiled);
  } catch (const InputError& error) {
    file.report(error.problems());
  }
}

// Replaces the name of a placement file by the list in that file.
void include_placement(JsonFile& file) {
  nlohmann::ordered_json& document = file.document();
  if (!document.is_object() || !document.contains("parallelism")) return;
  nlohmann::ordered_json& parallelism = document["parallelism"];
  if (!parallelism.is_object() || !parallelism.contains("placement")) return;
  nlohmann::ordered_json& placement = parallelism["placement"];
  if (!placement.is_string()) return;
  const fs::path folder = fs::path(file.name()).parent_path();
  const std::string name = file_near(folder, placement.get<std::string>());
  placement = parse_json(name, read_file(name));
  note_data_file("placement", name);
}

void read_host(JsonFile& file, const fs::path& folder, Scenario& scenario) {
  if (!file.is_sound("/host")) return;
  const std::string& name = scenario.host;
  try {
    scenario.host_costs = load_host_costs(located(folder, name));
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) {
      if (problem.pointer.empty()) {
        file.report(
            "/host",
            is_path(name) ? fmt::format("\"{}\": {}", name, problem.problem) : problem.problem,
            problem.hint);
      } else {
        file.report(std::vector{problem});
      }
    }
  }
}

// Reads the measured lengths that `preset` names. A preset without a kind is the kind.
void read_preset(JsonObject object, const fs::path& folder, Documents& documents) {
  if (documents.preset.empty()) return;
  documents.preset = located(folder, documents.preset);
  if (!object.has("kind")) documents.kind = DocumentKind::Preset;
  try_file(object, "preset", [&] { documents.measured = load_document_lengths(documents.preset); });
}

// Reads the sections that have tables, and the files that their fields name.
void read_sections(JsonObject& root, const fs::path& folder, TrainingPlan& plan) {
  for (const Section& section : sections()) {
    if (!root.has(section.key)) continue;
    JsonObject object = root.object(section.key);
    section.read(object, plan);
  }
  if (!root.has("training"))
    root.report("training", "is missing",
                "it must be an object with sequence_length and global_batch_size");
  if (std::string& schedule = plan.parallelism.schedule; schedule.ends_with(".json")) {
    schedule = file_near(folder, schedule);
    note_data_file("schedule", schedule);
    JsonObject parallelism = root.object("parallelism");
    try_file(parallelism, "schedule", [&] { (void)open_schedule(schedule); });
  }
  if (root.has("documents")) read_preset(root.object("documents"), folder, plan.documents);
  if (std::string& counts = plan.experts.counts; !counts.empty()) {
    counts = file_near(folder, counts);
    note_data_file("expert counts", counts);
  }
}

// Where stages have unequal numbers of tensor ranks, `tensor` is the largest.
void settle_tensor(JsonFile& file, Parallelism& parallelism) {
  if (parallelism.tensor_per_stage.empty()) return;
  if (!file.document().contains("/parallelism/tensor"_json_pointer))
    parallelism.tensor = parallelism.most_tensor();
}

// Returns the host memory and bandwidth per GPU, the least of the nodes where they differ.
HostShare host_share(const ClusterSpec& cluster) {
  const auto of = [](const NodeSpec& node) {
    const double gpus = std::max(1U, node.gpus);
    return HostShare{.memory = node.host_memory / gpus, .bandwidth = node.host_bandwidth / gpus};
  };
  HostShare least = of(cluster.node);
  for (const OtherNodes& others : cluster.others) {
    const HostShare share = of(others.node);
    least = {.memory = std::min(least.memory, share.memory),
             .bandwidth = std::min(least.bandwidth, share.bandwidth)};
  }
  return least;
}

// Replaces the order of the kinds of nodes by the placement that it means.
void settle_node_order(JsonFile& file, const ClusterSpec& cluster, Parallelism& parallelism) {
  const std::vector<std::string> order = std::exchange(parallelism.node_order, {});
  if (order.empty() || !file.is_sound("/cluster")) return;
  const char* field = "/parallelism/node_order";
  if (!parallelism.placement.empty()) {
    file.report(field, "says which GPUs the ranks get, as /parallelism/placement does",
                "leave one of them out");
    return;
  }
  const std::vector<std::string> kinds = node_kinds(cluster);
  if (!std::ranges::is_permutation(order, kinds)) {
    file.report(field, fmt::format("names {}, not every kind of node once", fmt::join(order, ", ")),
                fmt::format("list, in the order you want: {}", fmt::join(kinds, ", ")));
    return;
  }
  parallelism.placement = placement_by_nodes(cluster, order);
}

Scenario read_scenario(JsonFile& file) {
  Scenario scenario;
  scenario.file = file.name();
  const fs::path folder = fs::path(file.name()).parent_path();
  JsonObject root = file.root();
  root.ignore("applied_defaults");          // defaults.hpp reads it
  if (!file.is_sound("")) return scenario;  // not an object: every field would be missing
  scenario = read_fields(root, heading_fields(), std::move(scenario));
  scenario.plan.architecture = read_model(file, root, folder);
  if (root.has("cluster")) {
    scenario.cluster = read_cluster(root.object("cluster"), folder);
  } else {
    root.report("cluster", "is missing", "it must be an object with node, nodes and fabric");
  }
  read_sections(root, folder, scenario.plan);
  settle_tensor(file, scenario.plan.parallelism);
  settle_node_order(file, scenario.cluster, scenario.plan.parallelism);
  scenario.plan.host = host_share(scenario.cluster);
  scenario.plan.collectives = read_collectives(root.object("collectives"), folder);
  scenario = read_fields(root, run_fields(), std::move(scenario));
  scenario.plan.seed = scenario.seed;
  if (root.has("published")) {
    JsonObject published = root.object("published");
    scenario.published = read_fields(published, published_fields(), Published{});
  }
  if (root.has("reliability")) scenario.reliability = read_reliability(root, folder);
  if (root.has("power")) scenario.power = read_power(root);
  // Sections are read before the files that depend on them: kernels on the training section,
  // gradients on the recipe.
  read_framework(file, scenario);
  read_recipe(file, scenario.plan);
  settle_gradients(file, scenario.plan);
  check_scaling(file, scenario.plan);
  read_host(file, folder, scenario);
  return scenario;
}

// The order matters: defaults fill the document before it is read, and unknown keys are reported
// before the rules between sections. A problem in a value that a default has filled in names that
// default.
Scenario checked_scenario(JsonFile file) {
  const DataUse use;
  file.explain_unknown(foreign_words());
  file.explain_unknown_words(renamed_words());
  include_placement(file);
  std::vector<AppliedDefault> applied = apply_defaults(file, fs::path(file.name()).parent_path());
  try {
    Scenario scenario = read_scenario(file);
    file.report_unknown_keys();
    check_scenario(file, scenario);
    file.finish();
    scenario.applied_defaults = std::move(applied);
    scenario.own_files = use.files();
    return scenario;
  } catch (const InputError& error) {
    throw InputError(attribute_to_defaults(error.problems(), applied));
  }
}

// A user may give the configuration of a model in place of a scenario.
void refuse_model_file(JsonFile& file) {
  const nlohmann::ordered_json& document = file.document();
  if (!is_hf_config(document) || document.contains("cluster")) return;
  throw InputError(Problem{
      .file = file.name(),
      .pointer = {},
      .problem = "is a model's configuration, not a scenario",
      .hint = fmt::format("write a scenario for it: trainyard init --model {}", file.name())});
}

void refuse_jobs(JsonFile& file) {
  if (!file.document().is_object() || !file.document().contains("jobs")) return;
  throw InputError(
      Problem{.file = file.name(),
              .pointer = "/jobs",
              .problem = "several jobs on one cluster are not one scenario",
              .hint = fmt::format("simulate them together: trainyard jobs {}", file.name())});
}

// Reads the file after the overrides. `use` records the files that it depends on.
Scenario overridden_scenario(JsonFile file, const std::vector<Override>& overrides,
                             const DataUse& use) {
  refuse_model_file(file);
  refuse_jobs(file);
  const fs::path folder = fs::path(file.name()).parent_path();
  for (const Override& change : overrides) {
    expand_named_part(file.document(), override_pointer(change.path), folder);
    file.document() = with_override(std::move(file.document()), change);
  }
  try {
    Scenario scenario = checked_scenario(std::move(file));
    for (const Override& change : overrides)
      scenario.changes.push_back(fmt::format("{}={}", change.path, change.value));
    scenario.own_files = use.files();  // those that overrides expanded, too
    return scenario;
  } catch (const InputError& error) {
    throw InputError(attribute_to_overrides(error.problems(), overrides));
  }
}

}  // namespace

Scenario read_scenario_document(const std::string& name, const nlohmann::ordered_json& document,
                                const std::vector<Override>& overrides) {
  const DataUse use;
  return overridden_scenario(JsonFile::parse(name, document.dump()), overrides, use);
}

Scenario load_scenario(const std::string& path, const std::vector<Override>& overrides) {
  const DataUse use;
  return overridden_scenario(JsonFile::read(scenario_file(path)), overrides, use);
}

}  // namespace trainyard
