// The words of the PyTorch profiler (Kineto) for what a simulated GPU does, so that tools made for
// its traces (Perfetto views, HolisticTraceAnalysis) read ours.
//
//   nccl_kernel_name({.op = CollectiveOp::AllReduce, .dtype = DataType::Bf16},
//                    {.algorithm = "Ring", .protocol = "LL"});
//   // "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sim/cluster/communication_model.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// Sends, receives and all_to_all are "ncclDevKernel_SendRecv", as in NCCL. An algorithm
// without a protocol is taken for a kernel of Simple.
[[nodiscard]] std::string nccl_kernel_name(const Call& call,
                                           const SelectedAlgorithm& selected_algorithm);

// "allreduce", "_allgather_base", "send" (for OpKind::Send) ...
[[nodiscard]] std::string_view kineto_collective_name(OpKind kind, CollectiveOp op);

// "BFloat16", "Half", "Float" ...
[[nodiscard]] std::string_view kineto_dtype(DataType dtype);

// Elements one rank puts in and takes out of a call of a group of `ranks`.
struct MessageElements {
  std::int64_t in = 0;
  std::int64_t out = 0;
};
[[nodiscard]] MessageElements message_elements(const Call& call, std::uint64_t ranks);

// "[0, 8, 16, 24]"; Kineto cuts long lists after 30 entries, and so do we.
[[nodiscard]] std::string process_group_ranks(std::span<const RankId> members);

}  // namespace trainyard
