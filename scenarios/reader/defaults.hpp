// Fills in the fields that a scenario leaves out, with the practices of its framework
// (models/framework_file.hpp).
//
// No other code turns practices into settings: `run`, `validate` and all other commands read
// scenarios through this function. A value in the file has precedence. "defaults": "ideal" applies
// no practices: fields that are left out then have the values of the schema, with a host that
// issues kernels in no time and replicas that do not wait for the slowest.
//
//    {"framework": "megatron_2022", ...}   only training.attention is left out
//
//    const auto applied = apply_defaults(file, folder);
//    applied.front().field;   // "training.attention", now "unfused" in the document
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

// Fills in the file's document and returns what it filled in. A scenario that was written out
// contains the record of its defaults ("applied_defaults"). The function drops records whose field
// has another value now. It removes recorded fields from the document under "ideal", and where the
// present framework has no practice of their source that holds for the run. Problems are reported
// to the file.
[[nodiscard]] std::vector<AppliedDefault> apply_defaults(JsonFile& file,
                                                         const std::filesystem::path& folder);

// Adds a remark to problems at fields that a default filled in.
[[nodiscard]] std::vector<Problem> attribute_to_defaults(
    std::vector<Problem> problems, const std::vector<AppliedDefault>& applied);

// Returns "stragglers = true: SOURCE", with the fields of one source in one sentence.
[[nodiscard]] std::vector<std::string> default_sentences(
    const std::vector<AppliedDefault>& applied);

}  // namespace trainyard
