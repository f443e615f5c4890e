// The NCCL profiler writes the schema of collective profiles, as `trainyard import
// nccl-tests` does, so that `trainyard collective --profile` reads both.
//
//   CollectiveRun run{.op = CollectiveOp::AllReduce, .gpu = "NVIDIA H200", .ranks = 8, .nodes = 1};
//   run.rows.push_back({.bytes = 1048576, .time_us = 23.9});
//   write_file("nccl.json", collective_json({run}, provenance).dump(1));
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/workload/call.hpp"

namespace trainyard::bench {

struct CollectiveRow {
  std::int64_t bytes = 0;  // as nccl-tests counts them: the whole buffer of all ranks' blocks
  double time_us = 0.0;
  bool in_place = false;
};

struct CollectiveRun {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::string gpu;
  std::int64_t ranks = 0;
  std::int64_t nodes = 1;
  std::string nccl_version;
  std::string forced;  // "algorithm ring, protocol simple"; empty: NCCL's own choice
  std::vector<CollectiveRow> rows;
};

// The operations by the names that nccl-tests give them.
inline constexpr Words<CollectiveOp, 7> kCollectiveOperations{
    {{CollectiveOp::AllReduce, "all_reduce"},
     {CollectiveOp::AllGather, "all_gather"},
     {CollectiveOp::ReduceScatter, "reduce_scatter"},
     {CollectiveOp::Broadcast, "broadcast"},
     {CollectiveOp::Reduce, "reduce"},
     {CollectiveOp::AllToAll, "alltoall"},
     {CollectiveOp::SendRecv, "send_recv"}}};

// From the least to the most, each `factor` times the last: 8, 16 ... 8589934592 has 31.
[[nodiscard]] std::vector<std::int64_t> size_steps(std::int64_t least, std::int64_t most,
                                                   std::int64_t factor);

// Bytes as people write them: "8", "64KiB", "8GiB". Throws InputError that names the option.
[[nodiscard]] std::int64_t read_bytes(const std::string& option, const std::string& text);

// Runs of two and more ranks as a collective profile. One rank communicates with nobody: such rows
// are a floor (launch and local copy) and go into a document of their own schema, with what is
// missing for a profile.
[[nodiscard]] nlohmann::ordered_json collective_json(const std::vector<CollectiveRun>& runs,
                                                     const nlohmann::ordered_json& provenance);

}  // namespace trainyard::bench
