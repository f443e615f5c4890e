// The sections of a scenario that are tables of fields: a row each, by which they are read, written
// out, described in the schema and named where a key stands in the wrong one.
//
//   for (const Section& section : sections()) fmt::print("{}: {}\n", section.key, section.meaning);
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

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

}  // namespace trainyard
