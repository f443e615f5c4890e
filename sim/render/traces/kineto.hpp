// The PyTorch profiler's (Kineto's) names for what a simulated GPU does, so that tools for its
// traces (Perfetto views, HolisticTraceAnalysis) read Trainyard's traces.
//
//    nccl_kernel_name(CollectiveCall{.op = CollectiveOp::AllReduce, .dtype = DataType::Bf16},
//                     {.algorithm = "Ring", .protocol = "LL"});
//    // "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sim/cluster/communication_model.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// Returns the name of NCCL's kernel. Sends, receives and all_to_all are "ncclDevKernel_SendRecv",
// as in NCCL. An algorithm without a protocol gets the name of its Simple kernel.
[[nodiscard]] std::string nccl_kernel_name(const Call& call,
                                           const SelectedAlgorithm& selected_algorithm);

// Returns "allreduce", "_allgather_base", "send" (for OpKind::Send) ...
[[nodiscard]] std::string_view kineto_collective_name(OpKind kind, CollectiveOp op);

// Returns "BFloat16", "Half", "Float" ...
[[nodiscard]] std::string_view kineto_dtype(DataType dtype);

// The elements that one rank contributes to and receives from a call of a group of `ranks` ranks.
struct MessageElements {
  std::int64_t in = 0;
  std::int64_t out = 0;
};
[[nodiscard]] MessageElements message_elements(const Call& call, std::uint64_t ranks);

// Returns "[0, 8, 16, 24]". Like Kineto it truncates a list after 30 entries.
[[nodiscard]] std::string process_group_ranks(std::span<const RankId> members);

}  // namespace trainyard
