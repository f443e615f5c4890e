// fit_deepep TABLE [FILE DATE]: fits the latency and the copy rate of DeepEP's normal kernels, or
// of HybridEP's where the table has a column `library`, to measurements and prints the errors of
// the fit.
//
//    fit_deepep deepep_normal.csv sim/collectives/deepep/data/deep_ep.json 2026-11-22
//    fit_deepep ep_exchange_normal.csv sim/collectives/deepep/data/hybrid_ep.json 2026-11-30
//
// The fit is least squares of relative errors, with equal weight for each GPU and number of nodes.
// Across nodes it uses only table rows with few SMs, where the SMs and not the NIC limit the rate.
// The output is deterministic: the same table gives the same bytes.
#include <fmt/format.h>

#include <Eigen/Dense>
#include <cmath>
#include <compare>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "sim/base/csv.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/collectives/algorithms/node_limited.hpp"

namespace {

using namespace trainyard;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kRanksOfNode = 8;
constexpr std::int64_t kTokensLeast = 256;   // with fewer tokens the time is only latency
constexpr std::int64_t kFewSms = 8;          // limit for rows across nodes
constexpr std::int64_t kNodesMost = 4;       // the fabric of the eight nodes is not described
constexpr double kFp8Row = 1.0 + 4.0 / 128;  // dispatch: 1 byte, and a 4-byte scale per 128 numbers
constexpr double kBf16Row = 2.0;             // combine

// One measured call. `bytes` is what a GPU forwards to others of its node.
struct Row {
  double bytes = 0.0;
  double seconds = 0.0;
  std::int64_t sms = 0;
  std::optional<double> copy_s = {};  // of a call of the library; none: its kernels alone
};

// The rows of one GPU on so many nodes, all of them calls or none. They weigh as much as those of
// any other group.
struct GroupKey {
  std::string gpu;
  std::int64_t nodes = 1;
  bool call = false;
  auto operator<=>(const GroupKey&) const = default;
};
using Rows = std::map<GroupKey, std::vector<Row>>;

// Selects the rows for the fit. The table's H200 rows across nodes are copies of the H100 rows, and
// its GB200 rows do not give the number of GPUs, so neither is used.
bool is_used(const std::string& gpu, std::int64_t nodes, std::int64_t sms, std::int64_t tokens) {
  const bool known = gpu == "h100_sxm" || gpu == "b200_sxm";
  return known && tokens >= kTokensLeast && nodes <= kNodesMost && (nodes == 1 || sms <= kFewSms);
}

Rows deepep_rows(const CsvTable& table) {
  Rows rows;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const std::string& gpu = table.text(i, "gpu");
    const std::int64_t nodes = table.integer(i, "nodes");
    const std::int64_t tokens = table.integer(i, "tokens_per_rank");
    const TokenChoice choice{.picks = table.integer(i, "topk"),
                             .experts = table.integer(i, "experts")};
    const std::int64_t ranks = nodes * kRanksOfNode;
    if (choice.experts < ranks) continue;
    // One copy in 8 stays on the GPU that forwards it and does not cross NVLink.
    const double copies = distinct_units(choice, ranks) * static_cast<double>(kRanksOfNode - 1) /
                          static_cast<double>(kRanksOfNode);
    const double numbers = copies * static_cast<double>(tokens * table.integer(i, "hidden"));
    for (const auto& [way, width] : {std::pair{"dispatch", kFp8Row}, {"combine", kBf16Row}}) {
      const std::string name = way;
      const std::int64_t sms = table.integer(i, name + "_sms");
      if (!is_used(gpu, nodes, sms, tokens)) continue;
      const double us = table.number(i, name + "_us") + table.number(i, name + "_notify_us");
      rows[{.gpu = gpu, .nodes = nodes}].push_back(
          {.bytes = numbers * width, .seconds = us * 1e-6, .sms = sms});
    }
  }
  return rows;
}

// HybridEP's rate is the same from 8 SMs on, so all its rows count as those of its default. The
// published GB/s count every GPU (nvlink_algo) or node (ib_algo) that gets a token, its sender's
// own too. Across nodes only two of them, where the NIC is not the limit.
//
// Half of the rows time calls of the library (torch_api), which copy the received tokens out of the
// library's buffer, or into it, and wait for the host (csrc/hybrid_ep/executor/executor.cu,
// tests/test_hybrid_ep.py). Training does neither: its kernels permute in place of the copy, which
// the simulator writes as operations (models/layers/token_dispatcher.cpp). The other rows time the
// kernels alone. So the copy is subtracted, and the wait is fitted beside the two numbers.
constexpr std::int64_t kHybridSms = 16;
constexpr std::int64_t kHybridSmsLeast = 8;

// Bytes per second of a copy, read and written, as kernels/profiles have them.
double copy_rate(const std::string& gpu) { return gpu == "h100" ? 2.96e12 : 7.07e12; }

Rows hybridep_rows(const CsvTable& table) {
  Rows rows;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    if (table.text(i, "library") != "HybridEP") continue;
    const bool call = table.text(i, "timing") == "torch_api";
    const bool across = table.text(i, "bw_kind") == "ib_algo";
    const std::int64_t nodes = across ? table.integer(i, "nodes") : 1;
    if (nodes > 2) continue;
    const std::string& gpu = table.text(i, "gpu");
    const TokenChoice choice{.picks = table.integer(i, "topk"),
                             .experts = table.integer(i, "experts")};
    const std::int64_t ranks = table.integer(i, "ep");
    const double of_token = static_cast<double>(table.integer(i, "tokens_per_rank")) *
                            static_cast<double>(table.integer(i, "hidden"));
    const std::int64_t peers = across ? kRanksOfNode : ranks;
    const double received = of_token * distinct_units(choice, ranks);
    const double forwarded = received * static_cast<double>(peers - 1) / static_cast<double>(peers);
    const double counted = of_token * distinct_units(choice, across ? nodes : ranks);
    for (const std::string way : {"dispatch", "combine"}) {
      if (table.integer(i, way + "_sms") < kHybridSmsLeast) continue;
      const double width = table.text(i, way + "_dtype") == "fp8" ? kFp8Row : kBf16Row;
      rows[{.gpu = gpu, .nodes = nodes, .call = call}].push_back(
          {.bytes = forwarded * width,
           .seconds = counted * width / (table.number(i, way + "_GBps") * 1e9),
           .sms = kHybridSms,
           .copy_s = call ? std::optional(2.0 * received * width / copy_rate(gpu)) : std::nullopt});
    }
  }
  return rows;
}

struct Pace {
  double start = 0.0;  // seconds
  double rate = 0.0;   // bytes/s of one SM
  double wait = 0.0;   // seconds that a call takes beside its kernels and copies
  [[nodiscard]] double seconds(const Row& row) const {
    return start + row.bytes / (rate * static_cast<double>(row.sms)) +
           (row.copy_s ? wait + *row.copy_s : 0.0);
  }
};

// Solves start + bytes / SMs / rate (+ wait + copy) = t by weighted least squares of relative
// errors. Without calls among the rows the wait stays 0.
Pace fit(const std::vector<const std::vector<Row>*>& groups) {
  std::size_t count = 0;
  for (const auto* group : groups) count += group->size();
  Eigen::MatrixX3d left(static_cast<Eigen::Index>(count), 3);
  Eigen::VectorXd right(static_cast<Eigen::Index>(count));
  Eigen::Index at = 0;
  for (const auto* group : groups)
    for (const Row& row : *group) {
      const double weight = 1.0 / (row.seconds * std::sqrt(static_cast<double>(group->size())));
      left.row(at) << weight, weight * row.bytes / static_cast<double>(row.sms),
          row.copy_s ? weight : 0.0;
      right(at) = weight * (row.seconds - row.copy_s.value_or(0.0));
      ++at;
    }
  // The rank falls to two where no row is a call, and the solution of least norm has no wait.
  const Eigen::Vector3d found = left.completeOrthogonalDecomposition().solve(right);
  return {.start = found(0), .rate = 1.0 / found(1), .wait = found(2)};
}

Json errors_of(const Pace& pace, const std::vector<Row>& rows) {
  double sum = 0.0, bias = 0.0;
  for (const Row& row : rows) {
    const double error = pace.seconds(row) / row.seconds - 1.0;
    sum += std::abs(error);
    bias += error;
  }
  const auto mean = [&rows](double of) {
    return std::round(of / static_cast<double>(rows.size()) * 1e4) / 1e4;
  };
  return {{"rows", rows.size()}, {"mean_absolute", mean(sum)}, {"bias", mean(bias)}};
}

Json fitted(const Rows& rows, bool across, Json& errors) {
  std::vector<const std::vector<Row>*> groups;
  for (const auto& [key, group] : rows)
    if ((key.nodes > 1) == across) groups.push_back(&group);
  const Pace pace = fit(groups);
  for (const auto& [key, group] : rows)
    if ((key.nodes > 1) == across)
      errors[fmt::format("{}, nodes: {}{}", key.gpu, key.nodes, key.call ? ", calls" : "")] =
          errors_of(pace, group);
  Json reach = {{"start", fmt::format("{:.1f} us", pace.start * 1e6)},
                {"rate_per_sm", fmt::format("{:.2f} GB/s", pace.rate * 1e-9)}};
  if (pace.wait > 0.0) reach["benchmark_wait"] = fmt::format("{:.1f} us", pace.wait * 1e6);
  return reach;
}

// Not fitted: kernels that fill the GPU once need a second wave for the SMs that are held.
constexpr double kComputeLoss = 0.5;
constexpr const char* kComputeLossSource =
    "wave quantisation: GEMMs and attention start one block for each SM, and the blocks of the SMs "
    "that the exchange holds run after the others, in a second wave (NVIDIA, Matrix Multiplication "
    "Background)";

// The texts of a library's file, and the SMs that its kernels hold.
struct Library {
  const char* description;
  const char* source;
  const char* table;
  std::int64_t sms;
  const char* sms_source;
};

constexpr Library kDeepEpTable{
    "DeepEP's normal kernels: from the call to the first rows, and what one of its SMs hands on",
    "collectives/deepep_normal.csv (ai-dynamo/aiconfigurator, Apache-2.0), H100 on 1, 2 and 4 "
    "nodes, B200 on 1",
    "deepep_normal.csv", 20,
    "DeepEP README, Buffer.set_num_sms; Megatron-Core's moe_deepep_num_sms defaults to 20"};

constexpr Library kHybridEpTable{
    "HybridEP's kernels: from their start to the first rows, and what one of its SMs hands on; "
    "benchmark_wait is what a call of its benchmark takes beside kernels and copies, and training "
    "does not",
    "collectives/ep_exchange_normal.csv (deepseek-ai/DeepEP@hybrid-ep docs/README_Hybrid-EP.md "
    "94a9f8f6b146), GB200 and B200 within one NVLink domain, H100 on 2 nodes",
    "ep_exchange_normal.csv", kHybridSms, "Megatron-Core's moe_hybridep_num_sms defaults to 16"};

Json document(const Library& library, const Rows& rows, const std::string& date) {
  Json errors = Json::object();
  const Json in_node = fitted(rows, false, errors);
  const Json across = fitted(rows, true, errors);
  return {
      {"description", library.description},
      {"source", library.source},
      {"command", fmt::format("fit_deepep measured/collectives/{} FILE {}", library.table, date)},
      {"sms", {{"value", library.sms}, {"source", library.sms_source}}},
      {"in_node", in_node},
      {"across", across},
      {"compute_loss", {{"value", kComputeLoss}, {"source", kComputeLossSource}}},
      {"errors", errors}};
}

}  // namespace

int main(int count, char** values) {
  const std::span<char*> arguments(values, static_cast<std::size_t>(count));
  if (arguments.size() != 2 && arguments.size() != 4) {
    fmt::print(stderr, "usage: fit_deepep TABLE [FILE DATE]\n");
    return 2;
  }
  try {
    const CsvTable table(arguments[1]);
    const bool hybrid = table.has("library");
    const Rows rows = hybrid ? hybridep_rows(table) : deepep_rows(table);
    const std::string text = document(hybrid ? kHybridEpTable : kDeepEpTable, rows,
                                      arguments.size() == 4 ? arguments[3] : "DATE")
                                 .dump(2) +
                             "\n";
    fmt::print("{}", text);
    if (arguments.size() == 4) write_file(arguments[2], text);
  } catch (const InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}
