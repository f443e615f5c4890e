// Reads a trace of the PyTorch profiler (Kineto): the Chrome trace that export_chrome_trace and
// tensorboard_trace_handler write, plain or as .gz.
//
// The file is read in one pass and never held in memory: 100 MB of a training run's trace take
// 40 MB. Of complete events ("ph": "X") it takes
//
//    kernel, gpu_memcpy, gpu_memset   what ran on the GPU; NCCL kernels with "Collective name",
//                                     "In msg nelems", "Out msg nelems", "Group size", "dtype" and
//                                     "Process Group Ranks"
//    cpu_op                           operations of the framework, with "Input Dims", "Input type"
//                                     and "Concrete Inputs" if record_shapes=True
//    cuda_runtime, cuda_driver        launches
//    user_annotation                  ProfilerStep#N
//
// A kernel belongs to the operation of its "External id"; without one to the innermost operation
// around the launch with its "correlation", or around the start of the ac2g flow of that id.
//
//    const GpuTrace trace = read_kineto("rank0.json.gz");
#pragma once

#include <filesystem>
#include <istream>
#include <string>
#include <vector>

#include "scenarios/import/gpu_trace.hpp"

namespace trainyard {

// A JSON file of measurements holds a trace, or step times in seconds ([1.52, 1.49]).
struct KinetoFile {
  GpuTrace trace = {};
  std::vector<double> step_times_s = {};  // not empty: the file is a list of numbers
};

// Throws InputError for a file that is no JSON, is truncated or damaged, has no kernel, has a
// kernel without a time or with a negative duration, or shows several ranks.
// `name` is the file's in messages.
[[nodiscard]] KinetoFile read_kineto_stream(const std::string& name, std::istream& stream);

// Reads a file that must be a trace. Throws InputError.
[[nodiscard]] GpuTrace read_kineto(const std::filesystem::path& file);

}  // namespace trainyard
