// Measured collectives, each with what NCCL would choose for it on the machine it was measured on.
//
// Rows are read from tables (collectives/<gpu>_sxm.csv) and logs (collectives/logs/*.json); the
// machines of both are in data/measured_platforms.json. Tables give medians of repeated points.
// A log counts by its out-of-place rows, where it has any. Rows of RCCL, of DeepEP and of
// switches that reduce (SHARP) are left out. One table is there to judge, not to fit: all_reduce on
// 2 to 8 A100, without its sizes to 4 MiB, which show a floor of the tool.
//
//   const Samples samples = read_samples("measured/collectives");
//   for (const Sample& sample : samples.rows) use(sample.time_us);
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/json_reader.hpp"
#include "sim/nccl/machine.hpp"

namespace trainyard::nccl::fit {

struct Sample {
  std::string source;  // "h100_sxm", "aws_p5_h100_n1"
  CollectiveOp op = CollectiveOp::AllReduce;
  double bytes = 0.0;
  double time_us = 0.0;
  const Communicator* communicator = nullptr;
  Choice choice = {};     // set for the operations that NCCL tunes
  std::string fabric;     // between its nodes; empty on one node
  double nic_rate = 0.0;  // nominal, of all NICs of a node
  std::uint32_t nics = 0;
  // Thresholds of its messages (Network), where the fabric has them.
  std::optional<double> rendezvous_bytes = {};
  std::optional<double> inject_bytes = {};
  bool fitted = true;  // false: only to judge

  [[nodiscard]] Generation generation() const { return generation_of(communicator->node.sm); }
  [[nodiscard]] bool one_node() const { return communicator->nodes == 1; }
};

struct Samples {
  std::vector<Sample> rows;
  std::deque<Communicator> communicators;  // samples point into it
};

// Throws InputError where the folder has no such files or a file is not as described.
[[nodiscard]] Samples read_samples(const std::filesystem::path& collectives);

// One measured point of a table or log.
struct MeasuredPoint {
  std::string op;  // "all_reduce", "alltoall" or "all_to_all", ...
  std::uint32_t ranks = 0;
  std::uint32_t nodes = 0;  // 0: not told
  std::string version;      // NCCL's; empty: the platform's
  double bytes = 0.0;
  double time_us = 0.0;
  bool floats = true;  // NVLS adds floats only
  bool fitted = true;
};

// The operation that a log calls so; nothing for another.
[[nodiscard]] std::optional<CollectiveOp> op_of(const std::string& name);

// The file's points, of a table (op,dtype,gpus,nccl_version,size_bytes,time_us) or a log whose
// "rows" have op, size_bytes and time_us. Throws InputError.
[[nodiscard]] std::vector<MeasuredPoint> read_points(const std::filesystem::path& file);

// Points on a machine that its user describes as data/measured_platforms.json does its own:
// {"gpu": "h100", "gpus": 8, "nccl": "2.27", "host": "amd", "nic": 50, "nics": 8,
// "fabric": "infiniband"}, with rates in GB/s. Throws InputError, problems at their place in that
// file.
[[nodiscard]] Samples samples_on(JsonFile& platform, const std::string& source,
                                 const std::vector<MeasuredPoint>& points);

// Is the file, by its name, of a machine that data/measured_platforms.json describes?
[[nodiscard]] bool is_measured_platform(const std::filesystem::path& file);
// One of them. Throws InputError likewise. REQUIRES: is_measured_platform.
[[nodiscard]] Samples read_samples_of(const std::filesystem::path& file);

}  // namespace trainyard::nccl::fit
