// NCCL's tuning model, as it is, against measured collectives of single nodes. Prints a table by
// operation and size; nothing is fitted. Rows of int8 are left out: NVLS does not add them, and
// gathers repeat those of half.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <tuple>

#include "communicators.hpp"

namespace trainyard::nccl {
namespace {

using namespace testing;

struct Measured {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::string type;
  std::uint32_t gpus = 0;
  std::string version;
  double bytes = 0.0;
  double time_us = 0.0;
};

std::optional<CollectiveOp> op_of(const std::string& name) {
  if (name == "all_reduce") return CollectiveOp::AllReduce;
  if (name == "all_gather") return CollectiveOp::AllGather;
  if (name == "reduce_scatter") return CollectiveOp::ReduceScatter;
  return {};  // alltoall has no tuning model
}

std::vector<Measured> read(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  std::vector<Measured> rows;
  while (std::getline(in, line)) {
    std::stringstream fields(line);
    std::vector<std::string> parts;
    for (std::string part; std::getline(fields, part, ',');) parts.push_back(part);
    if (parts.size() < 6) continue;
    const auto op = op_of(parts[0]);
    if (!op) continue;
    rows.push_back({.op = *op,
                    .type = parts[1],
                    .gpus = static_cast<std::uint32_t>(std::stoul(parts[2])),
                    .version = parts[3],
                    .bytes = std::stod(parts[4]),
                    .time_us = std::stod(parts[5])});
  }
  return rows;
}

// Sums of relative errors.
struct Error {
  double absolute = 0.0;
  double bias = 0.0;
  std::size_t rows = 0;
  void add(double relative) {
    absolute += std::abs(relative);
    bias += relative;
    ++rows;
  }
};

const char* band_of(double bytes) {
  if (bytes < 65536.0) return "1 < 64 KiB";
  if (bytes < 1048576.0) return "2 64 KiB..1 MiB";
  return bytes < 67108864.0 ? "3 1..64 MiB" : "4 >= 64 MiB";
}

class Model {
 public:
  explicit Model(SwitchedNode node) : node_(node) {}
  double time_us(const Measured& row) {
    const auto key = std::make_pair(row.gpus, row.version);
    auto found = known_.find(key);
    if (found == known_.end()) {
      SwitchedNode node = node_;
      node.gpus = row.gpus;
      found = known_.emplace(key, of_nodes(switched_node(node), 1, {.version = row.version})).first;
    }
    return choose(found->second, {.op = row.op, .bytes = row.bytes}).prediction.time_us(row.bytes);
  }

 private:
  SwitchedNode node_;
  std::map<std::pair<std::uint32_t, std::string>, Communicator> known_;
};

void compare(const std::filesystem::path& folder, const char* gpu, const SwitchedNode& node) {
  const std::vector<Measured> rows = read(folder / (std::string(gpu) + "_sxm.csv"));
  EXPECT_FALSE(rows.empty()) << gpu;
  Model model(node);
  std::map<std::tuple<std::string, std::string>, Error> table;
  Error large;
  Error all;
  for (const Measured& row : rows) {
    if (row.type == "int8") continue;
    const double relative = model.time_us(row) / row.time_us - 1.0;
    EXPECT_TRUE(std::isfinite(relative));
    table[{std::string(to_string(row.op)), band_of(row.bytes)}].add(relative);
    all.add(relative);
    if (row.bytes >= 1048576.0) large.add(relative);
  }
  for (const auto& [key, error] : table)
    fmt::print("{:5} {:15} {:16} {:4} rows  MAPE {:6.1f} %  bias {:+7.1f} %\n", gpu,
               std::get<0>(key), std::get<1>(key).substr(2), error.rows,
               100.0 * error.absolute / static_cast<double>(error.rows),
               100.0 * error.bias / static_cast<double>(error.rows));
  fmt::print("{:5} all sizes {:.1f} %, from 1 MiB {:.1f} %\n", gpu,
             100.0 * all.absolute / static_cast<double>(all.rows),
             100.0 * large.absolute / static_cast<double>(large.rows));
}

TEST(Measured, NcclModelAgainstTables) {
  const auto tables = std::filesystem::path(TRAINYARD_SOURCE_DIRECTORY) / ".." / "shared" /
                      "measured" / "collectives";
  if (!std::filesystem::exists(tables / "h100_sxm.csv"))
    GTEST_SKIP() << "NOT COMPARED: the measured collectives are not at " << tables;
  compare(tables, "a100", {.sm = 80, .nvlink = 240.0, .nvlinks = 12, .pcie = 24.0});
  compare(tables, "h100", {});
  compare(tables, "b200", {.sm = 100, .nvlink = 721.8});
}

}  // namespace
}  // namespace trainyard::nccl
