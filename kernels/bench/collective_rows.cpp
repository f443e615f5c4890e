#include "kernels/bench/collective_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"

namespace trainyard::bench {

namespace {

using Json = nlohmann::ordered_json;

Json row_json(const CollectiveRun& run, const CollectiveRow& row) {
  const double algbw = static_cast<double>(row.bytes) / row.time_us * 1e-3;
  return {{"op", run.op},
          {"dtype", "float"},
          {"size_bytes", row.bytes},
          {"time_us", row.time_us},
          {"algbw_GBps", algbw},
          {"busbw_GBps", algbw * bus_factor(run.op, run.ranks)},
          {"in_place", row.in_place}};
}

Json run_json(const CollectiveRun& run) {
  Json rows = Json::array();
  for (const CollectiveRow& row : run.rows) rows.push_back(row_json(run, row));
  Json notes = Json::array();
  if (!run.forced.empty()) notes.push_back("forced: " + run.forced);
  return {{"file",
           run.forced.empty() ? "trainyard-profile-nccl" : "trainyard-profile-nccl, " + run.forced},
          {"op", run.op},
          {"gpu", run.gpu},
          {"ranks", run.ranks},
          {"nodes", run.nodes},
          {"nccl_version", run.nccl_version},
          {"cuda_graph", false},
          {"notes", notes},
          {"rows", rows}};
}

}  // namespace

const std::vector<std::string>& collective_operations() {
  static const std::vector<std::string> operations = {
      "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "send_recv"};
  return operations;
}

double bus_factor(std::string_view op, std::int64_t ranks) {
  TY_CHECK(ranks > 0, ranks);
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  if (op == "all_reduce") return 2.0 * others;
  if (op == "all_gather" || op == "reduce_scatter" || op == "alltoall") return others;
  return 1.0;
}

std::vector<std::int64_t> size_steps(std::int64_t least, std::int64_t most, std::int64_t factor) {
  TY_CHECK(least > 0 && factor > 1, least, factor);
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = least; size <= most; size *= factor) sizes.push_back(size);
  return sizes;
}

std::int64_t read_bytes(const std::string& option, const std::string& text) {
  std::size_t used = 0;
  double number = 0.0;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const std::string unit = text.substr(used);
  const std::vector<std::string> units = {"B", "KiB", "MiB", "GiB"};
  const auto found = std::find(units.begin(), units.end(), unit.empty() ? "B" : unit);
  const double bytes =
      number * std::ldexp(1.0, 10 * static_cast<int>(std::distance(units.begin(), found)));
  if (used == 0 || found == units.end() || !(bytes >= 1.0 && bytes < 1e18) ||
      bytes != std::trunc(bytes))
    throw InputError(Problem{option, "", "\"" + text + "\" is no number of bytes",
                             "write 8, 64KiB, 32MiB or 8GiB"});
  return static_cast<std::int64_t>(bytes);
}

Json collective_json(const std::vector<CollectiveRun>& runs, const Json& provenance) {
  Json shared = Json::array();
  Json alone = Json::array();
  for (const CollectiveRun& run : runs) (run.ranks > 1 ? shared : alone).push_back(run_json(run));
  const std::string date = provenance.value("date", std::string());
  if (shared.empty())
    return {
        {"schema", "trainyard.nccl_one_rank"},
        {"version", 1},
        {"provenance", provenance},
        {"missing", "a second GPU: these rows are the floor of one rank, launch and local copy"},
        {"runs", alone}};
  return {{"schema", "trainyard.collective_profile"},
          {"version", 1},
          {"source", fmt::format("trainyard-profile-nccl: {}", provenance.dump())},
          {"imported", date},
          {"runs", shared}};
}

}  // namespace trainyard::bench
