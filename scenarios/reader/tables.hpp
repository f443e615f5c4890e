// The tables of a scenario's fields, section by section (field.hpp says what a row is), and the
// list of the sections. A scenario is read, written out and described in the schema by them.
//
//   for (const Section& section : sections()) fmt::print("{}: {}\n", section.key, section.meaning);
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
[[nodiscard]] std::span<const Field<OffloadSettings>> offload_fields();
[[nodiscard]] std::span<const Field<Documents>> document_fields();
[[nodiscard]] std::span<const Field<nccl::Settings>> nccl_fields();
[[nodiscard]] std::span<const Field<Published>> published_fields();

// Fields at the root of the file, before and after the sections.
[[nodiscard]] std::span<const Field<Scenario>> heading_fields();
[[nodiscard]] std::span<const Field<Scenario>> run_fields();

// The kinds of groups and the operations whose algorithm a scenario may choose.
[[nodiscard]] std::span<const GroupKind> group_kinds();
[[nodiscard]] std::vector<CollectiveOp> chosen_operations();
// "nccl", then the registry's.
[[nodiscard]] std::vector<std::string> algorithm_names(CollectiveOp op);
[[nodiscard]] bool is_algorithm(CollectiveOp op, const std::string& name);

struct Section {
  std::string_view key;
  std::string_view meaning;  // for editors; a phrase
  void (*read)(JsonObject& section, TrainingPlan& plan);
  nlohmann::ordered_json (*write)(const TrainingPlan& plan);
  nlohmann::ordered_json (*schema)();
  std::vector<std::string_view> (*keys)();
  bool (*is_used)(const TrainingPlan& plan);  // else it is not written out
};
[[nodiscard]] std::span<const Section> sections();

// From a word (lower case, underscores) to the sentence that names ours: Megatron's flags, Hugging
// Face's fields, usual abbreviations, and our own keys where they stand in the wrong section.
[[nodiscard]] std::map<std::string, std::string> foreign_words();

}  // namespace trainyard
