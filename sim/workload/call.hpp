// The calls that groups make: collectives, messages, copies to and from the host, and relays
// through switches.
//
//    const Call call = CollectiveCall{.op = CollectiveOp::AllReduce, .bytes = 1 << 20};
//    bytes_of(call);   // for every kind of call
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
  HostCopy  // between a GPU and the memory of its CPU; the group has one rank
};
[[nodiscard]] std::string_view to_string(CollectiveOp op);

// In all kinds of call, `bytes` is the size as nccl-tests defines it: the whole buffer (the
// gathered one for all_gather and reduce_scatter), or the message of a transfer.

// A collective of all members, by an algorithm of the collective registry. For an uneven
// all_to_all, `matrix` holds the bytes that each of the n members sends to each other member.
// `bytes` is then the largest row sum, which is the send volume of the busiest member, including
// its own part.
struct CollectiveCall {
  CollectiveOp op = CollectiveOp::AllReduce;  // neither SendRecv nor HostCopy
  std::int64_t bytes = 0;
  DataType dtype = DataType::Bf16;
  std::string algorithm = "ring";
  std::vector<std::int64_t> matrix =
      {};  // n*n bytes, [sender * n + receiver] by group rank; empty: all equal
  auto operator<=>(const CollectiveCall&) const = default;
};

// Whole is a message on its own. A Step is part of a larger collective and pays no launch latency.
// A FollowingStep also pays no step latency, because it leaves while the previous step between the
// same two members on the same channel is still under way.
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

// A copy between a GPU and the memory of its CPU.
struct HostCopyCall {
  HostDirection direction = HostDirection::ToHost;
  std::int64_t bytes = 0;
  DataType dtype = DataType::Bf16;
  auto operator<=>(const HostCopyCall&) const = default;
};

// A hop of a call through switches that reduce or multicast. An endpoint is a group rank, or, from
// the number of members on, a switch: that number plus the switch's vertex in the cluster's graph.
struct RelayHop {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::int64_t bytes = 0;
  auto operator<=>(const RelayHop&) const = default;
};

// A step of a larger collective: all traffic into and out of switches, as one flow.
struct RelayCall {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::int64_t bytes = 0;  // bytes of the largest hop
  DataType dtype = DataType::Bf16;
  std::vector<RelayHop> hops = {};
  bool follows = false;  // a relay between the same members precedes it, so it pays no latency
  auto operator<=>(const RelayCall&) const = default;
};

// One communication of one size. Operations refer to it by index.
using Call = std::variant<CollectiveCall, TransferCall, HostCopyCall, RelayCall>;

[[nodiscard]] CollectiveOp op_of(const Call& call);
[[nodiscard]] std::int64_t bytes_of(const Call& call);
[[nodiscard]] DataType dtype_of(const Call& call);
// Returns the name for workload files and reports: an algorithm of the registry, "step", "to_host",
// "relay".
[[nodiscard]] std::string_view algorithm_of(const Call& call);
// Returns CollectiveCall::matrix; empty for all other kinds.
[[nodiscard]] std::span<const std::int64_t> matrix_of(const Call& call);

// Returns a collective, or a message if `op` is SendRecv. REQUIRES: `op` is not HostCopy.
[[nodiscard]] Call make_call(CollectiveOp op, std::int64_t bytes, DataType dtype,
                             std::string algorithm);
[[nodiscard]] Call with_bytes(Call call, std::int64_t bytes);
// Returns the same call by another algorithm of the registry. REQUIRES: a collective or a message.
[[nodiscard]] Call with_algorithm(Call call, std::string algorithm);

// Returns the factor from algbw to busbw, so that bandwidths compare across algorithms and group
// sizes:
//
//    busbw = size / time * bus_bandwidth_factor(op, ranks)
//
// The factor is 2(n-1)/n for all_reduce, (n-1)/n for reduce_scatter, all_gather and all_to_all, and
// 1 for others (nccl-tests, doc/PERFORMANCE.md). An all_reduce of 1 GiB over 8 ranks in 5 ms has
// 214.7 GB/s x 1.75 = 375.8 GB/s (tests/sim/collectives/algorithm_model_test.cpp). For fewer than
// two ranks nothing moves, and the factor is 1.
[[nodiscard]] double bus_bandwidth_factor(CollectiveOp op, std::uint64_t ranks);

}  // namespace trainyard
