// The tables of a scenario's fields, section by section (sim/base/field.hpp defines their entries),
// and the list of the sections. Reading, writing and the schema of scenarios use them.
//
//    for (const Section& one : sections()) fmt::print("{}: {}\n", one.key, one.meaning);
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/base/field.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

[[nodiscard]] std::span<const Field<Parallelism>> parallelism_fields();
[[nodiscard]] std::span<const Field<Training>> training_fields();
[[nodiscard]] std::span<const Field<ExpertSettings>> expert_fields();
[[nodiscard]] std::span<const Field<ParameterServers>> server_fields();
[[nodiscard]] std::span<const Field<LocalSteps>> local_step_fields();
[[nodiscard]] std::span<const Field<OffloadSettings>> offload_fields();
[[nodiscard]] std::span<const Field<Documents>> document_fields();
[[nodiscard]] std::span<const Field<nccl::Settings>> nccl_fields();
[[nodiscard]] std::span<const Field<Published>> published_fields();

// Return the fields at the root of the file, before and after the sections.
[[nodiscard]] std::span<const Field<Scenario>> heading_fields();
[[nodiscard]] std::span<const Field<Scenario>> run_fields();

// Return the kinds of groups and the operations whose algorithm a scenario may choose.
[[nodiscard]] std::span<const GroupKind> group_kinds();
[[nodiscard]] std::vector<CollectiveOp> chosen_operations();
// Returns "nccl" and the names in the registry.
[[nodiscard]] std::vector<std::string> algorithm_names(CollectiveOp op);
[[nodiscard]] bool is_algorithm(CollectiveOp op, const std::string& name);

// A section of a scenario that is a table of fields.
struct Section {
  std::string_view key;
  std::string_view meaning;  // a phrase for editors
  void (*read)(JsonObject& section, TrainingPlan& plan);
  nlohmann::ordered_json (*write)(const TrainingPlan& plan);
  nlohmann::ordered_json (*schema)();
  std::vector<std::string_view> (*keys)();
  bool (*is_used)(const TrainingPlan& plan);  // an unused section is not written out
};
[[nodiscard]] std::span<const Section> sections();

// Returns the schema of the object "cluster", which a file of jobs has as well. It leaves the parts
// of a node and the devices of a custom cluster open, because topologies/ reads and checks them.
[[nodiscard]] nlohmann::ordered_json cluster_schema();

// Maps a name (lower case, underscores) to a hint that names Trainyard's field. The names are
// Megatron's flags, Hugging Face's fields, usual abbreviations, and Trainyard's own keys, which may
// stand in the wrong section.
[[nodiscard]] std::map<std::string, std::string> foreign_words();
// Words that fields took in earlier releases, each with a hint to the present one.
[[nodiscard]] std::map<std::string, std::string> renamed_words();

}  // namespace trainyard
