// A collective profile: a file with times that nccl-tests measured on a cluster, for use in later
// simulations.
//
//    {"schema": "trainyard.collective_profile", "version": 1,
//     "source": "nccl-tests logs: a.log", "imported": "2026-11-21",
//     "runs": [{"file": "a.log", "op": "all_reduce", "gpu": ..., "ranks": 8, "nodes": 1,
//               "nccl_version": "2.27.3", "cuda_graph": false,
//               "rows": [{"op": "all_reduce", "dtype": "float", "size_bytes": 1024,
//                         "time_us": 9.8, "algbw_GBps": 0.1, "busbw_GBps": 0.18,
//                         "in_place": false}]}],
//     "fits": [...]}
//
// "fits" is information for people and for other programs; the reader of a profile ignores it and
// fits the rows again.
//
//    CollectiveProfile profile = read_collective_profile("profile.json");
//    profile.find({.op = CollectiveOp::AllReduce, .ranks = 8, .nodes = 1});
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/collectives/profile/measured.hpp"

namespace trainyard {

struct ProfileQuery {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::uint32_t ranks = 0;
  std::uint32_t nodes = 0;
  DataType dtype = DataType::Fp32;
};

struct CollectiveProfile {
  std::string source = {};
  std::string imported = {};  // a date, "2026-11-21"
  std::vector<MeasuredRun> runs = {};
  std::vector<MeasuredCurve> curves = {};  // computed from the runs

  // The curve of this operation with the same number of ranks and nodes, or nullptr. It prefers a
  // curve of the same data type, then an out-of-placed one.
  [[nodiscard]] const MeasuredCurve* find(const ProfileQuery& question) const;
};

[[nodiscard]] CollectiveProfile make_collective_profile(std::vector<MeasuredRun> runs,
                                                        std::string imported);

[[nodiscard]] nlohmann::ordered_json to_json(const CollectiveProfile& profile);

// Throws InputError with all problems of the file.
[[nodiscard]] CollectiveProfile read_collective_profile(const std::filesystem::path& file);

// True if the text is a profile (of any version) and not a log.
[[nodiscard]] bool is_collective_profile(std::string_view text);

}  // namespace trainyard
