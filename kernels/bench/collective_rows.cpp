#include "kernels/bench/collective_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/workload/call.hpp"

namespace trainyard::bench {

namespace {

using Json = nlohmann::ordered_json;

Json row_json(const CollectiveRun& run, const CollectiveRow& row) {
  const double algbw = static_cast<double>(row.bytes) / row.time_us * 1e-3;
  const double factor = bus_bandwidth_factor(run.op, static_cast<std::uint64_t>(run.ranks));
  return {{"op", word_for(kCollectiveOperations, run.op)},
          {"dtype", "float"},
          {"size_bytes", row.bytes},
          {"time_us", row.time_us},
          {"algbw_GBps", algbw},
          {"busbw_GBps", run.ranks > 1 ? algbw * factor : 0.0},
          {"in_place", row.in_place}};
}

Json run_json(const CollectiveRun& run) {
  Json rows = Json::array();
  for (const CollectiveRow& row : run.rows) rows.push_back(row_json(run, row));
  Json notes = Json::array();
  if (!run.forced.empty()) notes.push_back("forced: " + run.forced);
  return {{"file",
           run.forced.empty() ? "trainyard-profile-nccl" : "trainyard-profile-nccl, " + run.forced},
          {"op", word_for(kCollectiveOperations, run.op)},
          {"gpu", run.gpu},
          {"ranks", run.ranks},
          {"nodes", run.nodes},
          {"nccl_version", run.nccl_version},
          {"cuda_graph", false},
          {"notes", notes},
          {"rows", rows}};
}

}  // namespace

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
