// The first problem of a scenario as a job, as a user reads it; empty where there is none.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/error.hpp"
#include "sim/base/memo.hpp"
#include "tests/scenarios/sample.hpp"
#include "tools/studies/goodput/run/job.hpp"
#include "tools/studies/goodput/scenario_job.hpp"

namespace trainyard::test {

inline std::string refusal_of_job(const nlohmann::ordered_json& document) {
  try {
    Memo memo;
    (void)job_of(load(document), memo);
    return "";
  } catch (const InputError& error) {
    return to_text(error.problems().front());
  }
}

}  // namespace trainyard::test
