// The tables of a scenario's fields, section by section (field.hpp says what a row is).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/base/field.hpp"

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

}  // namespace trainyard
