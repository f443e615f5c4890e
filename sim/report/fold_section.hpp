// The classes that ranks were folded into, and why they are not one.
//
//   fmt::print("{}", fold_section(view));   // REQUIRES: the run was asked for its reasons
//   json["fold"]["rank_classes"] = rank_classes_json(view);
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/report/run_view.hpp"

namespace trainyard {

// For people: each class with its members, and the way from its first rank, through groups, chains
// and links, to what differs from the class most like it.
[[nodiscard]] std::string fold_section(const RunView& view);

// [{class, ranks, members: [{first, length, every, times}], program, unlike, cause, path: [{kind,
// here, there}], because}]
[[nodiscard]] nlohmann::ordered_json rank_classes_json(const RunView& view);

}  // namespace trainyard
