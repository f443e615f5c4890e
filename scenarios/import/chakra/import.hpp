// Chakra execution traces of others, or ours, as a workload that any cluster can replay.
//
//   Imported step = read_traces("et", {});
//   write_file("step.json", to_json(step.workload));    // trainyard run --workload step.json ...
//
// Rank r's trace is the file whose name ends in ".r.et" (or ".r.et.gz"); its work runs on GPU r.
// Nodes are issued as their dependencies allow, lowest id first, each on its stream. Writers differ
// in what fields mean, so conventions are stated, not guessed. Once partners are found and cycles
// refused, the traces become what a workload file holds: there is one reader for both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard::chakra {

// The source of a computation's duration. Best: by kernel shape where we wrote the trace, else as
// recorded, else by the roofline of `num_ops` and `tensor_size` on the GPU that replays it.
enum class Durations : std::uint8_t { Best, Recorded, Roofline };

struct Conventions {
  Durations durations = Durations::Best;
  double duration_unit_s = 1e-6;       // of duration_micros, as the name says
  bool all_gather_output = false;      // comm_size is the gathered whole, not a rank's part
  bool reduce_scatter_output = false;  // comm_size is a rank's result, not the whole it puts in
  bool streams_by_kind = false;       // one for each kind of node, whatever attribute "stream" says
  bool skip_cpu = false;              // what the CPU does takes no time
  bool skip_memory = false;           // loads and stores take no time; else they cross to the host
  DataType dtype = DataType::Bf16;    // precision of the roofline
  std::string algorithm = "nccl";     // of collectives
  std::filesystem::path groups = {};  // {"1": [0, 1]}, as ASTRA-sim reads them; may be empty
  // Sizes of the network's dimensions, the first varying fastest with the rank, which
  // "involved_dim" chooses from: 8 and 4 for 32 ranks. Empty: no trace may choose.
  std::vector<std::int64_t> dimensions = {};
};

struct Imported {
  Workload workload;
  // Computations by where their time comes from; `untimed` have neither duration nor work.
  std::size_t by_kernel = 0, recorded = 0, roofline = 0, untimed = 0;
  std::size_t skipped = 0;  // nodes that take no time here: metadata, storage, what was left out
};

// Throws InputError, all problems together: no trace or a rank without one, ids that are not there,
// a cycle, a collective without its partners, calls that differ, a group nobody defines.
[[nodiscard]] Imported read_traces(const std::filesystem::path& folder,
                                   const Conventions& conventions);

}  // namespace trainyard::chakra
