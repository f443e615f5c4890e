// A worker process of `trainyard serve` answers these requests. Requests and answers are JSON
// objects.
//
//    kind        request                               answer
//    run         scenario                              figures, stages and pipeline of the step
//    neighbours  scenario, seconds                     rows of changes, the quickest first
//    layout      model, node, nodes, sequence, batch   a first scenario that fits
//    search      scenario                              the best layouts
//    model       text (of a config.json)               the model's fields
//    jobs        jobs, file (to write)                 the report of `trainyard jobs`, a sentence
//    page, trace scenario, file (to write)             nothing but the file
//
//    Memo memo;
//    auto answer = answer_to({{"kind", "run"}, {"scenario", document}}, memo, hooks);
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <stop_token>

#include "sim/base/memo.hpp"

namespace trainyard::serve {

struct Hooks {
  std::stop_token stop = {};                             // ends the work soon, with Cancelled
  std::function<void(double)> progress = {};             // receives the completed fraction
  std::function<void(nlohmann::ordered_json)> row = {};  // receives parts of the answer early
  std::uint64_t most_gpus = UINT64_MAX;                  // larger clusters are refused
};

// Throws InputError for a request that is wrong, RunError for a run that cannot proceed, and
// Cancelled after a stop request.
[[nodiscard]] nlohmann::ordered_json answer_to(const nlohmann::ordered_json& request, Memo& memo,
                                               const Hooks& hooks);

// The lists that the page shows before the first run: models, node types, fabrics, schedules, the
// scenarios that are shipped, and the schema of a scenario, which explains its fields.
[[nodiscard]] nlohmann::ordered_json start_lists();

}  // namespace trainyard::serve
