// Fields that a scenario leaves out, as its framework's practices have them
// (models/framework_file.hpp).
//
// This is the one place where practices become settings: `run`, `validate` and all other commands
// read scenarios through it. What the file says itself always wins. "defaults": "ideal" goes
// without practices: what is left out then has the values of the schema, with a host that issues in
// no time and replicas that keep pace.
//
//   {"framework": "megatron_2022", ...}     // no word of attention
//   const AppliedDefaults applied = apply_defaults(file, folder);
//   applied.front().field;                  // "training.attention", now "unfused" in the document
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

// Fills the file's document in; says what it filled in. A scenario that was written out keeps the
// record of its defaults ("applied_defaults"): those whose field has another value by now are
// dropped from it. Recorded fields are taken out of the document again under "ideal", and where the
// framework that is named now has no practice of their source. Problems go to the file.
[[nodiscard]] std::vector<AppliedDefault> apply_defaults(JsonFile& file,
                                                         const std::filesystem::path& folder);

// Problems at a field that a default filled in say so.
[[nodiscard]] std::vector<Problem> blame_defaults(std::vector<Problem> problems,
                                                  const std::vector<AppliedDefault>& applied);

// "stragglers = true: SOURCE", the fields of one source together.
[[nodiscard]] std::vector<std::string> default_sentences(
    const std::vector<AppliedDefault>& applied);

}  // namespace trainyard
