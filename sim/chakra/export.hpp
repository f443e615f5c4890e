// Exports a simulated step as Chakra execution traces, one per rank, for other simulators and for
// Trainyard's own import.
//
//    write_traces(run.view(), "et", {});   // et/step.0.et, et/step.1.et ..., et/comm_groups.json
//
// A compute node holds FLOPs (`num_ops`), bytes (`tensor_size`) and its simulated duration. A node
// of a collective or a message holds type, bytes and process group. CPU operations have
// `is_cpu_op`. Data dependencies are the operations that an operation waits for; the control
// dependency is the previous operation on its stream. `comm_size` is the input of a rank
// (ASTRA-sim's convention): an all_gather of 8 ranks that gathers 64 MiB has 8 MiB. The attribute
// "trainyard" holds everything that Chakra has no field for (kernel shapes, algorithms, memory), so
// that import.hpp restores the same step. Durations are those of the framework that ran the step
// (import them as recorded). A trace does not contain the time that hosts take to issue operations.
#pragma once

#include <filesystem>
#include <vector>

#include "sim/chakra/trace_file.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard::chakra {

[[nodiscard]] RankTrace trace_of(const RunView& view, RankId rank);

// Writes the traces of the given ranks, or of all ranks where `ranks` is empty. Throws InputError
// for a rank that does not exist, for a folder that cannot be written, and in a build without
// protobuf.
void write_traces(const RunView& view, const std::filesystem::path& folder,
                  const std::vector<RankId>& ranks);

}  // namespace trainyard::chakra
