// A simulated step as Chakra execution traces, one for each rank, for other simulators and for us.
//
//   write_traces(run.view(), "et", {});   // et/step.0.et, et/step.1.et ..., et/comm_groups.json
//
// Computation carries FLOPs (`num_ops`), bytes (`tensor_size`) and its simulated duration;
// collectives and messages carry type, bytes and process group; what the CPU does is marked
// `is_cpu_op`. Data dependencies are the events an operation waits for, control dependencies the
// operation before it on its stream. `comm_size` is what a rank puts in (ASTRA-sim's convention):
// of an all_gather of 8 ranks that gathers 64 MiB, 8 MiB. What Chakra has no words for (kernel
// shapes, algorithms, memory) is in the attribute "trainyard", so that import.hpp gets the very
// step back. Durations are those of the framework that ran it (import them as recorded); what hosts
// take to issue operations is not in a trace.
#pragma once

#include <filesystem>
#include <vector>

#include "sim/chakra/trace_file.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard::chakra {

[[nodiscard]] RankTrace trace_of(const RunView& view, RankId rank);

// Writes the traces of the ranks named, or of all. Throws InputError: a rank that does not exist, a
// folder that cannot be written, or no protobuf.
void write_traces(const RunView& view, const std::filesystem::path& folder,
                  const std::vector<RankId>& ranks);

}  // namespace trainyard::chakra
