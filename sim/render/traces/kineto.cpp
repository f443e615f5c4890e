#include "sim/render/traces/kineto.hpp"

#include <fmt/format.h>

#include <cctype>

namespace trainyard {
namespace {

// Kineto truncates lists of ranks after this many.
constexpr std::size_t kRanksListed = 30;

std::string_view nccl_dtype(DataType dtype) {
  switch (dtype) {
    case DataType::Fp32:
    case DataType::Tf32:
      return "f32";
    case DataType::Bf16:
      return "bf16";
    case DataType::Fp16:
      return "f16";
    case DataType::Fp8:
      return "f8e4m3";
  }
  return "";
}

// Returns the operation part of the kernel's name. Reductions include the operator and the type.
std::string nccl_stem(const Call& call) {
  switch (op_of(call)) {
    case CollectiveOp::AllReduce:
      return fmt::format("AllReduce_Sum_{}", nccl_dtype(dtype_of(call)));
    case CollectiveOp::ReduceScatter:
      return fmt::format("ReduceScatter_Sum_{}", nccl_dtype(dtype_of(call)));
    case CollectiveOp::Reduce:
      return fmt::format("Reduce_Sum_{}", nccl_dtype(dtype_of(call)));
    case CollectiveOp::AllGather:
      return "AllGather";
    case CollectiveOp::Broadcast:
      return "Broadcast";
    case CollectiveOp::AllToAll:
    case CollectiveOp::SendRecv:
    case CollectiveOp::HostCopy:
      return "";
  }
  return "";
}

std::string in_capitals(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::string nccl_kernel_name(const Call& call, const SelectedAlgorithm& selected_algorithm) {
  if (const auto* copy = std::get_if<HostCopyCall>(&call))
    return copy->direction == HostDirection::ToHost ? "Memcpy DtoH (Device -> Pinned)"
                                                    : "Memcpy HtoD (Pinned -> Device)";
  const std::string stem = nccl_stem(call);
  if (stem.empty()) return "ncclDevKernel_SendRecv";
  return fmt::format(
      "ncclDevKernel_{}_{}_{}", stem, in_capitals(selected_algorithm.algorithm),
      selected_algorithm.protocol.empty() ? "SIMPLE" : in_capitals(selected_algorithm.protocol));
}

std::string_view kineto_collective_name(OpKind kind, CollectiveOp op) {
  if (kind == OpKind::Send) return "send";
  if (kind == OpKind::Recv) return "recv";
  switch (op) {
    case CollectiveOp::AllReduce:
      return "allreduce";
    case CollectiveOp::AllGather:
      return "_allgather_base";
    case CollectiveOp::ReduceScatter:
      return "_reduce_scatter_base";
    case CollectiveOp::Broadcast:
      return "broadcast";
    case CollectiveOp::Reduce:
      return "reduce";
    case CollectiveOp::AllToAll:
      return "all_to_all";
    case CollectiveOp::SendRecv:
      return "send";
    case CollectiveOp::HostCopy:
      return "host_copy";
  }
  return "";
}

std::string_view kineto_dtype(DataType dtype) {
  switch (dtype) {
    case DataType::Fp32:
    case DataType::Tf32:
      return "Float";
    case DataType::Bf16:
      return "BFloat16";
    case DataType::Fp16:
      return "Half";
    case DataType::Fp8:
      return "Float8_e4m3fn";
  }
  return "";
}

MessageElements message_elements(const Call& call, std::uint64_t ranks) {
  const auto all = static_cast<std::int64_t>(static_cast<double>(bytes_of(call)) /
                                             element_bytes(dtype_of(call)));
  const std::int64_t share = all / static_cast<std::int64_t>(ranks);
  if (op_of(call) == CollectiveOp::AllGather) return {.in = share, .out = all};
  if (op_of(call) == CollectiveOp::ReduceScatter) return {.in = all, .out = share};
  return {.in = all, .out = all};
}

std::string process_group_ranks(std::span<const RankId> members) {
  std::string text = "[";
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i == kRanksListed) return text + ", ...]";
    text += fmt::format("{}{}", i == 0 ? "" : ", ", members[i]);
  }
  return text + "]";
}

}  // namespace trainyard
