#include "scenarios/import/traced_collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "sim/base/median.hpp"

namespace trainyard {

namespace {

// Calls that are the same in all traces but for their number. Collectives of a group run in one
// order on all its ranks, so the k-th call of a key in one trace is the k-th in the others.
struct CallKey {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::int64_t bytes = 0;
  std::uint32_t ranks = 0;
  std::uint32_t nodes = 0;
  std::string dtype = {};
  std::string group = {};
  auto operator<=>(const CallKey&) const = default;
};
// The key of a row of a profile. Operation, ranks and nodes come first, so rows of one run follow
// each other in a map, and add_row() only compares with the last run.
using RowKey = std::tuple<CollectiveOp, std::uint32_t, std::uint32_t, std::int64_t, std::string>;

struct CallTime {
  double least_us = 0.0;
  std::size_t ranks = 0;
};

class CallCollector {
 public:
  explicit CallCollector(const TracedCollectiveOptions& options) : options_(options) {}

  void add(const GpuTrace& trace) {
    std::map<CallKey, std::size_t> seen;
    for (const TracedKernel& kernel : trace.kernels) {
      if (!is_communication(kernel.kind)) continue;
      if (const auto key = key_of(trace, kernel)) {
        note(*key, seen[*key]++, static_cast<double>(kernel.duration_ns) / 1e3);
      } else {
        ++found_.left_out;
        found_.left_out_s += static_cast<double>(kernel.duration_ns) / 1e9;
      }
    }
    for (const auto& [key, count] : seen) {
      const auto [known, fresh] = counts_.try_emplace(key, count);
      if (!fresh && known->second != count)
        assumptions_.insert(
            "calls are paired by their order, but the traces hold different numbers of them: were "
            "the same steps recorded?");
    }
  }

  TracedCollectives finish(std::span<const GpuTrace> traces) {
    std::map<RowKey, std::vector<double>> rows;
    for (const auto& [key, calls] : calls_) {
      for (const CallTime& call : calls) {
        rows[{key.op, key.ranks, key.nodes, key.bytes, key.dtype}].push_back(call.least_us);
        ++found_.calls;
        if (call.ranks > 1) ++found_.calls_of_several;
      }
    }
    std::string files;
    for (const GpuTrace& trace : traces) files += (files.empty() ? "" : ", ") + trace.file;
    for (const auto& [key, times] : rows) add_row(key, times, files, traces.front().gpu);
    found_.reasons.assign(reasons_.begin(), reasons_.end());
    found_.assumptions.assign(assumptions_.begin(), assumptions_.end());
    return std::move(found_);
  }

 private:
  std::optional<CallKey> without(std::string reason) {
    reasons_.insert(std::move(reason));
    return std::nullopt;
  }

  std::optional<CallKey> key_of(const GpuTrace& trace, const TracedKernel& kernel) {
    if (kernel.call == kAbsent)
      return without(
          "the trace does not name the collective of a NCCL kernel (newer releases of PyTorch do)");
    const TracedCall& call = trace.calls[kernel.call];
    if (call.op == CollectiveOp::SendRecv)
      return without(
          "a message waits for its sender's computation, so its time says nothing about "
          "the network");
    if (call.bytes <= 0 || call.dtype.empty())
      return without(fmt::format("{} without its size or its type", call.name));
    CallKey key{.op = call.op, .bytes = call.bytes, .ranks = call.ranks, .dtype = call.dtype};
    if (key.ranks == 0) {
      if (options_.ranks == 0)
        return without(fmt::format("{} without the number of its ranks (--ranks)", call.name));
      key.ranks = options_.ranks;
      assumptions_.insert(fmt::format("groups have {} ranks, as --ranks states", options_.ranks));
    }
    if (key.ranks < 2) return without("a group of one rank moves nothing");
    // A profile counts the whole buffer, as nccl-tests does.
    if (call.bytes_of_one_rank &&
        (key.op == CollectiveOp::AllGather || key.op == CollectiveOp::ReduceScatter))
      key.bytes *= key.ranks;
    if (static_cast<double>(key.bytes) > kLogBytesMost)
      return without(fmt::format("{} of an impossible size", call.name));
    key.nodes = nodes_of(call, key.ranks);
    key.group = call.group;
    if (key.op == CollectiveOp::AllToAll)
      assumptions_.insert("every rank of an all_to_all sends as much as the others");
    return key;
  }

  // With 8 GPUs on a node, ranks 0, 8 and 16 are on 3 nodes, and a group of 16 unknown ranks is
  // taken to be on 2.
  std::uint32_t nodes_of(const TracedCall& call, std::uint32_t ranks) {
    assumptions_.insert(
        fmt::format("a node has {} GPUs, and ranks are numbered node by node (--gpus-per-node)",
                    options_.gpus_per_node));
    if (call.members.size() == ranks) {
      std::set<std::uint32_t> nodes;
      for (const std::uint32_t member : call.members) nodes.insert(member / options_.gpus_per_node);
      return static_cast<std::uint32_t>(nodes.size());
    }
    assumptions_.insert("a group whose members are not in the trace fills its nodes");
    return (ranks + options_.gpus_per_node - 1) / options_.gpus_per_node;
  }

  void note(const CallKey& key, std::size_t number, double time_us) {
    std::vector<CallTime>& calls = calls_[key];
    if (calls.size() <= number) calls.resize(number + 1);
    CallTime& call = calls[number];
    call.least_us = call.ranks == 0 ? time_us : std::min(call.least_us, time_us);
    ++call.ranks;
  }

  void add_row(const RowKey& key, const std::vector<double>& times, const std::string& files,
               const std::string& gpu) {
    const auto& [op, ranks, nodes, bytes, dtype] = key;
    const double time_us = median(times);
    if (!is_measured_time(time_us)) return;
    const bool same = !found_.runs.empty() && found_.runs.back().op == op &&
                      found_.runs.back().ranks == ranks && found_.runs.back().nodes == nodes;
    if (!same)
      found_.runs.push_back({.file = files, .op = op, .gpu = gpu, .ranks = ranks, .nodes = nodes});
    const double algbw = static_cast<double>(bytes) / time_us / 1e3;
    // PyTorch's all_reduce works in place.
    found_.runs.back().rows.push_back({.bytes = bytes,
                                       .dtype = dtype,
                                       .time_us = time_us,
                                       .algbw_GBps = algbw,
                                       .busbw_GBps = algbw * bus_bandwidth_factor(op, ranks),
                                       .in_place = op == CollectiveOp::AllReduce});
  }

  TracedCollectiveOptions options_;
  TracedCollectives found_;
  std::map<CallKey, std::vector<CallTime>> calls_;
  std::map<CallKey, std::size_t> counts_;  // in the first trace that has the call
  std::set<std::string> reasons_;
  std::set<std::string> assumptions_;
};

}  // namespace

TracedCollectives traced_collectives(std::span<const GpuTrace> traces,
                                     const TracedCollectiveOptions& options) {
  if (traces.empty()) return {};
  CallCollector collector(options);
  for (const GpuTrace& trace : traces) collector.add(trace);
  TracedCollectives found = collector.finish(traces);
  if (found.calls > found.calls_of_several)
    found.assumptions.push_back(fmt::format(
        "the time of {} calls includes waiting for ranks that arrived later: one rank's trace "
        "holds them (give the traces of all ranks)",
        found.calls - found.calls_of_several));
  if (found.calls_of_several > 0)
    found.assumptions.push_back(fmt::format(
        "the time of {} calls is the least over the ranks whose traces hold them, that of the rank "
        "which arrived last",
        found.calls_of_several));
  return found;
}

}  // namespace trainyard
