#include "sim/workload/call.hpp"

#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {

std::string_view to_string(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::AllReduce:
      return "all_reduce";
    case CollectiveOp::AllGather:
      return "all_gather";
    case CollectiveOp::ReduceScatter:
      return "reduce_scatter";
    case CollectiveOp::Broadcast:
      return "broadcast";
    case CollectiveOp::Reduce:
      return "reduce";
    case CollectiveOp::AllToAll:
      return "all_to_all";
    case CollectiveOp::SendRecv:
      return "send_recv";
    case CollectiveOp::HostCopy:
      return "host_copy";
  }
  return "";
}

std::string_view to_string(HostDirection direction) {
  switch (direction) {
    case HostDirection::ToHost:
      return "to_host";
    case HostDirection::FromHost:
      return "from_host";
  }
  return "";
}

namespace {

struct OpOf {
  CollectiveOp operator()(const CollectiveCall& call) const { return call.op; }
  CollectiveOp operator()(const TransferCall&) const { return CollectiveOp::SendRecv; }
  CollectiveOp operator()(const HostCopyCall&) const { return CollectiveOp::HostCopy; }
  CollectiveOp operator()(const RelayCall& call) const { return call.op; }
};

struct AlgorithmOfCall {
  std::string_view operator()(const CollectiveCall& call) const { return call.algorithm; }
  std::string_view operator()(const TransferCall& call) const {
    switch (call.kind) {
      case MessageKind::Whole:
        return call.algorithm;
      case MessageKind::Step:
        return "step";
      case MessageKind::FollowingStep:
        return "step_on";
    }
    return "";
  }
  std::string_view operator()(const HostCopyCall& call) const { return to_string(call.direction); }
  std::string_view operator()(const RelayCall& call) const {
    return call.follows ? "relay_on" : "relay";
  }
};

}  // namespace

CollectiveOp op_of(const Call& call) { return std::visit(OpOf{}, call); }

std::int64_t bytes_of(const Call& call) {
  return std::visit([](const auto& kind) { return kind.bytes; }, call);
}

DataType dtype_of(const Call& call) {
  return std::visit([](const auto& kind) { return kind.dtype; }, call);
}

std::string_view algorithm_of(const Call& call) { return std::visit(AlgorithmOfCall{}, call); }

std::span<const std::int64_t> matrix_of(const Call& call) {
  const auto* collective = std::get_if<CollectiveCall>(&call);
  if (collective == nullptr) return {};
  return collective->matrix;
}

Call make_call(CollectiveOp op, std::int64_t bytes, DataType dtype, std::string algorithm) {
  TY_CHECK(op != CollectiveOp::HostCopy, bytes);
  if (op == CollectiveOp::SendRecv)
    return TransferCall{.bytes = bytes, .dtype = dtype, .algorithm = std::move(algorithm)};
  return CollectiveCall{
      .op = op, .bytes = bytes, .dtype = dtype, .algorithm = std::move(algorithm)};
}

Call with_bytes(Call call, std::int64_t bytes) {
  std::visit([&](auto& kind) { kind.bytes = bytes; }, call);
  return call;
}

Call with_algorithm(Call call, std::string algorithm) {
  if (auto* collective = std::get_if<CollectiveCall>(&call)) {
    collective->algorithm = std::move(algorithm);
    return call;
  }
  auto* transfer = std::get_if<TransferCall>(&call);
  TY_CHECK(transfer != nullptr, algorithm);
  transfer->algorithm = std::move(algorithm);
  return call;
}

double bus_bandwidth_factor(CollectiveOp op, std::uint64_t ranks) {
  if (ranks < 2) return 1.0;
  const auto n = static_cast<double>(ranks);
  switch (op) {
    case CollectiveOp::AllReduce:
      return 2.0 * (n - 1.0) / n;
    case CollectiveOp::AllGather:
    case CollectiveOp::ReduceScatter:
    case CollectiveOp::AllToAll:
      return (n - 1.0) / n;
    case CollectiveOp::Broadcast:
    case CollectiveOp::Reduce:
    case CollectiveOp::SendRecv:
    case CollectiveOp::HostCopy:
      return 1.0;
  }
  return 1.0;
}

}  // namespace trainyard
