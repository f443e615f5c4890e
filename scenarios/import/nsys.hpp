// Reads an SQLite export of Nsight Systems (`nsys export --type sqlite report.nsys-rep`).
//
//    CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET   what ran on the GPU (times in nanoseconds)
//    CUPTI_ACTIVITY_KIND_RUNTIME                    launches, by correlationId and process
//    NVTX_EVENTS                                    ranges: operations of PyTorch (emit_nvtx, with
//                                                   sizes if record_shapes=True), NCCL's calls with
//                                                   their payload as JSON, and steps
//    StringIds, TARGET_INFO_GPU                     texts; name and SMs of each GPU
//
// A kernel belongs to the innermost range that was open on its thread when it was launched. Ranges
// hold no types: the precision of a kernel is that of its name, or the one that the user states.
//
//    const std::vector<GpuTrace> traces = read_nsys("report.sqlite", {});
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/import/gpu_trace.hpp"

namespace trainyard {

struct NsysOptions {
  // The text with which the name of an NVTX range of a step begins; empty: "ProfilerStep#", or a
  // number after "step", "iteration" or "iter" ("iteration 12").
  std::string step_range = {};
};

// True for a file that begins as an SQLite database does.
[[nodiscard]] bool is_sqlite(const std::filesystem::path& file);

// One trace for each GPU with kernels, in the order of processes and devices. The database is
// opened read-only, and only tables are read, no views. Throws InputError for a file that is none,
// is damaged, lacks a table (the message names the command that exports it) or has no kernel.
[[nodiscard]] std::vector<GpuTrace> read_nsys(const std::filesystem::path& file,
                                              const NsysOptions& options);

}  // namespace trainyard
