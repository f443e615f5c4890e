// The neighbours of a scenario: the legal layouts that differ from it in one size.
//
//    for (const Neighbour& one : neighbours(scenario, document, stop))
//      fmt::print("{}\n", one.name);                     // "tensor 8 -> 4"
//
// The legal layouts are those of the search (tools/studies/search/space.hpp). A change of schedule
// and one of its depth count as one size.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"

namespace trainyard::serve {

struct Neighbour {
  std::string name;
  std::vector<Override> changes;
};

// Returns them so that every size is tried once before one is tried twice, the nearest values
// first. Returns an empty list for a scenario that the search cannot enumerate. `document` is the
// scenario as it was sent.
[[nodiscard]] std::vector<Neighbour> neighbours(
    const Scenario& scenario, std::shared_ptr<const nlohmann::ordered_json> document,
    const std::stop_token& stop);

// Returns the document with the changes made.
[[nodiscard]] nlohmann::ordered_json with_changes(const nlohmann::ordered_json& document,
                                                  const std::vector<Override>& changes);

}  // namespace trainyard::serve
