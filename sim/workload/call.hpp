// The calls that groups make: collectives, messages, copies to and from the host, and relays by
// switches.
//
//   const Call call = CollectiveCall{.op = CollectiveOp::AllReduce, .bytes = 1 << 20};
//   bytes_of(call);   // whatever kind it is
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/workload/kernel.hpp"

namespace trainyard {

enum class CollectiveOp : std::uint8_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  Broadcast,
  Reduce,
  AllToAll,
  SendRecv,
  HostCopy  // between a GPU and the memory of its CPU: a group of one rank
};
[[nodiscard]] std::string_view to_string(CollectiveOp op);

// In all kinds of call `bytes` is the nccl-tests size: the whole buffer (for all_gather and
// reduce_scatter the gathered one), the message for a transfer.

// All members take part, by an algorithm of the collective registry. An uneven all_to_all says in
// `matrix` what each of its n members sends each other one; `bytes` is then the largest row sum
// (what the busiest member sends, its own part included).
struct CollectiveCall {
  CollectiveOp op = CollectiveOp::AllReduce;  // neither SendRecv nor HostCopy
  std::int64_t bytes = 0;
  DataType dtype = DataType::Bf16;
  std::string algorithm = "ring";
  std::vector<std::int64_t> matrix =
      {};  // n*n bytes, [sender * n + receiver] by group rank; empty: all equal
  auto operator<=>(const CollectiveCall&) const = default;
};

// A step is a message of a larger collective: it does not pay the launch again. One that follows
// another between the same two on the same channel does not pay the latency of a step either: it
// leaves while the first is under way.
enum class MessageKind : std::uint8_t { Whole, Step, FollowingStep };

// A message from member 0 to member 1.
struct TransferCall {
  std::int64_t bytes = 0;
  DataType dtype = DataType::Bf16;
  std::string algorithm = "direct";  // of a whole message: "direct", or "nccl"
  MessageKind kind = MessageKind::Whole;
  auto operator<=>(const TransferCall&) const = default;
};

enum class HostDirection : std::uint8_t { ToHost, FromHost };
[[nodiscard]] std::string_view to_string(HostDirection direction);

// Between a GPU and the memory of its CPU.
struct HostCopyCall {
  HostDirection direction = HostDirection::ToHost;
  std::int64_t bytes = 0;
  DataType dtype = DataType::Bf16;
  auto operator<=>(const HostCopyCall&) const = default;
};

// A part of a call that leads through switches that reduce or copy. Ends are group ranks of the
// group and, beyond them, switches: the number of members plus the vertex in the cluster's graph.
struct RelayHop {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::int64_t bytes = 0;
  auto operator<=>(const RelayHop&) const = default;
};

// A step of a larger collective: what goes into switches and out of them as one flow.
struct RelayCall {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::int64_t bytes = 0;  // the largest hop
  DataType dtype = DataType::Bf16;
  std::vector<RelayHop> hops = {};
  bool follows = false;  // another between the same members: it does not pay the latency again
  auto operator<=>(const RelayCall&) const = default;
};

// One communication of one size; operations refer to it by index.
using Call = std::variant<CollectiveCall, TransferCall, HostCopyCall, RelayCall>;

[[nodiscard]] CollectiveOp op_of(const Call& call);
[[nodiscard]] std::int64_t bytes_of(const Call& call);
[[nodiscard]] DataType dtype_of(const Call& call);
// The name in workload files and reports: an algorithm of the registry, "step", "to_host", "relay".
[[nodiscard]] std::string_view algorithm_of(const Call& call);
// CollectiveCall::matrix; empty for all other kinds.
[[nodiscard]] std::span<const std::int64_t> matrix_of(const Call& call);

// A collective, or a message where `op` is SendRecv. REQUIRES: `op` is not HostCopy.
[[nodiscard]] Call make_call(CollectiveOp op, std::int64_t bytes, DataType dtype,
                             std::string algorithm);
[[nodiscard]] Call with_bytes(Call call, std::int64_t bytes);
// Returns the call by another algorithm of the registry. REQUIRES: a collective or a message.
[[nodiscard]] Call with_algorithm(Call call, std::string algorithm);

// Bandwidth of a collective is told so that algorithms and sizes of groups compare:
//
//   busbw = size / time * bus_bandwidth_factor(op, ranks)
//
// The factor is 2(n-1)/n for all_reduce, (n-1)/n for reduce_scatter, all_gather and all_to_all, and
// 1 for others (nccl-tests, doc/PERFORMANCE.md). 1 GiB all_reduced over 8 ranks in 5 ms:
// 214.7 GB/s x 1.75 = 375.8 GB/s (tests/sim/collectives/algorithm_model_test.cpp). It is 1 for
// fewer than two ranks, where nothing moves.
[[nodiscard]] double bus_bandwidth_factor(CollectiveOp op, std::uint64_t ranks);

}  // namespace trainyard
