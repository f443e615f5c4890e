// Output of the NCCL profiler in the schema of collective profiles, which `trainyard import
// nccl-tests` also writes, so that `trainyard collective --profile` reads both.
//
//    CollectiveRun run{
//        .op = CollectiveOp::AllReduce, .gpu = "NVIDIA H200", .ranks = 8, .nodes = 1};
//    run.rows.push_back({.bytes = 1048576, .time_us = 23.9});
//    write_file("nccl.json", collective_json({run}, provenance).dump(1));
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/workload/call.hpp"

namespace trainyard::bench {

struct CollectiveRow {
  // In the convention of nccl-tests: the complete buffer with the blocks of all ranks.
  std::int64_t bytes = 0;
  double time_us = 0.0;
  bool in_place = false;
};

struct CollectiveRun {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::string gpu;
  std::int64_t ranks = 0;
  std::int64_t nodes = 1;
  std::string nccl_version;
  std::string forced;  // "algorithm ring, protocol simple"; empty: NCCL chooses
  std::vector<CollectiveRow> rows;
};

// The operations, with their names in nccl-tests.
inline constexpr Words<CollectiveOp, 7> kCollectiveOperations{
    {{CollectiveOp::AllReduce, "all_reduce"},
     {CollectiveOp::AllGather, "all_gather"},
     {CollectiveOp::ReduceScatter, "reduce_scatter"},
     {CollectiveOp::Broadcast, "broadcast"},
     {CollectiveOp::Reduce, "reduce"},
     {CollectiveOp::AllToAll, "alltoall"},
     {CollectiveOp::SendRecv, "send_recv"}}};

// Sizes from `least` to `most`, each `factor` times the one before: 8, 16 ... 8589934592 are 31
// sizes.
[[nodiscard]] std::vector<std::int64_t> size_steps(std::int64_t least, std::int64_t most,
                                                   std::int64_t factor);

// Parses a size such as "8", "64KiB" or "8GiB". Throws InputError with the name of the option.
[[nodiscard]] std::int64_t read_bytes(const std::string& option, const std::string& text);

// Runs of two or more ranks as a collective profile. A single rank does not communicate. Its rows
// are a floor (launch and local copy) and are written with a separate schema that also states what
// is missing for a profile.
[[nodiscard]] nlohmann::ordered_json collective_json(const std::vector<CollectiveRun>& runs,
                                                     const nlohmann::ordered_json& provenance);

}  // namespace trainyard::bench
