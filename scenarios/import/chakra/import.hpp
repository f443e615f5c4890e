// Imports Chakra execution traces, from Trainyard or from other tools, as a workload that any
// cluster can replay.
//
//    Imported step = read_traces("et", {});
//    write_file("step.json", to_json(step.workload));    // trainyard run --workload step.json ...
//
// Rank r's trace is the file whose name ends in ".r.et" (or ".r.et.gz"); its work runs on GPU r.
// Nodes are issued as their dependencies allow, lowest id first, each on its stream. Writers of
// traces differ in the meaning of fields, so the caller states conventions; the importer does not
// guess them. After it has matched partners and refused cycles, it converts the traces to the text
// of a workload file, so that one reader serves both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard::chakra {

// The source of a computation's duration. Best: by kernel shape where Trainyard wrote the trace,
// else as recorded, else by the roofline of `num_ops` and `tensor_size` on the GPU that replays it.
enum class Durations : std::uint8_t { Best, Recorded, Roofline };

struct Conventions {
  Durations durations = Durations::Best;
  double duration_unit_s = 1e-6;       // unit of duration_micros; its name implies 1e-6
  bool all_gather_output = false;      // comm_size is the gathered tensor, not a rank's part
  bool reduce_scatter_output = false;  // comm_size is a rank's result, not its whole input
  bool streams_by_kind = false;  // one stream per kind of node; ignores the attribute "stream"
  bool skip_cpu = false;         // CPU operations take no time
  // Loads and stores take no time; else they are copies from and to the host.
  bool skip_memory = false;
  DataType dtype = DataType::Bf16;  // precision of the roofline
  std::string algorithm = "nccl";   // algorithm of collectives
  // File of groups, {"1": [0, 1]}, as ASTRA-sim reads them; may be empty.
  std::filesystem::path groups = {};
  // Sizes of the network's dimensions, from which "involved_dim" selects; the first varies fastest
  // with the rank: 8 and 4 for 32 ranks. Empty: no trace may select dimensions.
  std::vector<std::int64_t> dimensions = {};
};

struct Imported {
  Workload workload;
  // Numbers of computations by the source of their time; `untimed` have neither duration nor work.
  std::size_t by_kernel = 0, recorded = 0, roofline = 0, untimed = 0;
  std::size_t skipped = 0;  // nodes that take no time here: metadata, storage, skipped nodes
};

// Throws InputError with all problems: no trace, a rank without a trace, unknown ids, a cycle, a
// collective without partners, calls that differ, an undefined group.
[[nodiscard]] Imported read_traces(const std::filesystem::path& folder,
                                   const Conventions& conventions);

}  // namespace trainyard::chakra
