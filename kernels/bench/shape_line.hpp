// A task as a user types it: the text that reports and profiles print for it, read back.
//
//   read_shape_line("gemm m8192 n1280 k8192 bf16 wgrad accumulate_fp32");
//   read_shape_line("swiglu rows4096 columns14336");
//   read_shape_line("copy host_to_device 1048576 B");
#pragma once

#include <string>

#include "kernels/bench/task.hpp"

namespace trainyard::bench {

// task_text(read_shape_line(task_text(t))) == task_text(t). Throws InputError that names the word
// which was not understood.
[[nodiscard]] Task read_shape_line(const std::string& line);

}  // namespace trainyard::bench
