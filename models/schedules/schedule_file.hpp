// A user's own schedule, read from a JSON file. `schedule` in a scenario, or the name given to
// `trainyard schedule`, is then its path (it ends in ".json").
//
//   {
//     "placement": "wrap",             // or "vee", "bidirectional" (placement.hpp); default wrap
//     "ranks": ["F0 F1 B0 W0 B1 W1",   // program order of rank 0
//               "F0 B0 F1 B1 W0 W1"]   // one list for each pipeline rank
//   }
//
// A step is a letter, a microbatch from 0 and, where ranks have several chunks, ".chunk": F3 is a
// forward, B3 the backward, b3 its input-gradient part and W3 (or w3) its weight-gradient part. A B
// whose W stands in the same list is the input-gradient part. "F4.0&B1.1" runs a forward and a full
// backward as one overlapped block. Microbatches and chunks are counted from the steps.
#pragma once

#include <memory>
#include <string>

#include "models/schedules/schedule.hpp"

namespace trainyard {

// Throws InputError (file, "/ranks", and the rank, step and for a deadlock the circle) for a list
// that cannot be read or that check_schedule refuses. The schedule exists for one shape and refuses
// every other.
[[nodiscard]] std::unique_ptr<const Schedule> read_schedule_file(const std::string& file);
// The same of a document in hand.
[[nodiscard]] std::unique_ptr<const Schedule> parse_schedule(const std::string& name,
                                                             std::string_view json);
// Legal lists as such a file.
[[nodiscard]] std::string schedule_json(const ScheduleLists& lists, const PipelineShape& shape);

}  // namespace trainyard
