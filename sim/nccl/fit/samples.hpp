// Measured collectives, each with the choice of NCCL on the machine where it was measured.
//
// Rows come from tables (collectives/<gpu>_sxm.csv) and logs (collectives/logs/*.json);
// data/measured_platforms.json describes the machines of both. Tables give the medians of repeated
// points. A log contributes its out-of-placed rows if it has any. Rows of RCCL, of DeepEP, and of
// switches that reduce (SHARP) are left out. One table is for evaluation only and not for the fit:
// all_reduce on 2 to 8 A100. Its sizes up to 4 MiB are left out, because they show a minimum time
// of the tool.
//
//    const Samples samples = read_samples("measured/collectives");
//    for (const Sample& sample : samples.rows) use(sample.time_us);
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
  std::string site;    // the same for all logs of one cluster; else the source
  CollectiveOp op = CollectiveOp::AllReduce;
  double bytes = 0.0;
  double time_us = 0.0;
  const Communicator* communicator = nullptr;
  Choice choice = {};     // set for the operations that NCCL tunes
  std::string fabric;     // network between the nodes; empty on one node
  double nic_rate = 0.0;  // nominal, sum of all NICs of a node
  std::uint32_t nics = 0;
  // Thresholds of the messages (see Network), if the fabric has them.
  std::optional<double> rendezvous_bytes = {};
  std::optional<double> inject_bytes = {};
  bool fitted = true;   // false: for evaluation only
  double weight = 1.0;  // in the fit; less for noisy logs and for repetitions of one run

  [[nodiscard]] Generation generation() const { return generation_of(communicator->node.sm); }
  [[nodiscard]] bool one_node() const { return communicator->nodes == 1; }
};

struct Samples {
  std::vector<Sample> rows;
  std::deque<Communicator> communicators;  // samples point to these
};

// Throws InputError if the folder has no such files or if a file has another format.
[[nodiscard]] Samples read_samples(const std::filesystem::path& collectives);

// One measured point of a table or log.
struct MeasuredPoint {
  std::string op;  // "all_reduce", "alltoall" or "all_to_all", ...
  std::uint32_t ranks = 0;
  std::uint32_t nodes = 0;  // 0: unknown
  std::string version;      // NCCL's version; empty: that of the platform
  double bytes = 0.0;
  double time_us = 0.0;
  bool floats = true;  // NVLS adds floats only
  bool fitted = true;
};

// The operation with this name in logs, or nothing.
[[nodiscard]] std::optional<CollectiveOp> op_of(const std::string& name);

// The points of a table (op,dtype,gpus,nccl_version,size_bytes,time_us) or of a log whose "rows"
// have op, size_bytes and time_us. Throws InputError.
[[nodiscard]] std::vector<MeasuredPoint> read_points(const std::filesystem::path& file);

// Samples for points on a machine that the user describes in the format of
// data/measured_platforms.json: {"gpu": "h100", "gpus": 8, "nccl": "2.27", "host": "amd", "nic":
// 50, "nics": 8, "fabric": "infiniband"}, with rates in GB/s. Throws InputError with the location
// of each problem in that file.
[[nodiscard]] Samples samples_on(JsonFile& platform, const std::string& source,
                                 const std::vector<MeasuredPoint>& points);

// True if the name of the file is that of a machine in data/measured_platforms.json.
[[nodiscard]] bool is_measured_platform(const std::filesystem::path& file);
// The samples of one such file. Throws InputError as read_samples() does. REQUIRES:
// is_measured_platform.
[[nodiscard]] Samples read_samples_of(const std::filesystem::path& file);

}  // namespace trainyard::nccl::fit
