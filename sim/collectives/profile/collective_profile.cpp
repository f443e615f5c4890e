#include "sim/collectives/profile/collective_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

constexpr std::string_view kSchema = "trainyard.collective_profile";
constexpr std::int64_t kVersion = 1;
constexpr std::array kOps{CollectiveOp::AllReduce,     CollectiveOp::AllGather,
                          CollectiveOp::ReduceScatter, CollectiveOp::Broadcast,
                          CollectiveOp::Reduce,        CollectiveOp::AllToAll,
                          CollectiveOp::SendRecv};

using Json = nlohmann::ordered_json;

Json row_json(const MeasuredRun& run, const RunRow& row) {
  Json object;
  object["op"] = to_string(run.op);
  object["dtype"] = row.dtype;
  object["size_bytes"] = row.bytes;
  object["time_us"] = row.time_us;
  object["algbw_GBps"] = row.algbw_GBps;
  object["busbw_GBps"] = row.busbw_GBps;
  object["in_place"] = row.in_place;
  return object;
}

Json run_json(const MeasuredRun& run) {
  Json object;
  object["file"] = run.file;
  object["op"] = to_string(run.op);
  object["gpu"] = run.gpu;
  object["ranks"] = run.ranks;
  object["nodes"] = run.nodes;
  object["nccl_version"] = run.nccl_version;
  object["cuda_graph"] = run.cuda_graph;
  object["notes"] = run.notes;
  object["rows"] = Json::array();
  for (const RunRow& row : run.rows) object["rows"].push_back(row_json(run, row));
  return object;
}

Json fit_json(const MeasuredCurve& curve) {
  Json object;
  object["op"] = to_string(curve.op);
  object["gpu"] = curve.gpu;
  object["ranks"] = curve.ranks;
  object["nodes"] = curve.nodes;
  object["dtype"] = curve.dtype;
  object["in_place"] = curve.in_place;
  object["error"] = curve.fit.error;
  object["error_worst"] = curve.fit.error_worst;
  object["segments"] = Json::array();
  for (const FitSegment& segment : curve.fit.segments) {
    Json part;
    part["threshold_bytes"] = segment.threshold_bytes;
    part["from_bytes"] = segment.from_bytes;
    part["to_bytes"] = segment.to_bytes;
    part["latency_us"] = segment.latency_s * 1e6;
    part["algbw_GBps"] = nullptr;  // null: the time does not depend on the size
    if (segment.seconds_per_byte > 0.0) part["algbw_GBps"] = 1e-9 / segment.seconds_per_byte;
    part["error"] = segment.error;
    object["segments"].push_back(std::move(part));
  }
  return object;
}

CollectiveOp read_op(JsonObject& object) {
  std::vector<std::string> names;
  for (const CollectiveOp op : kOps) names.emplace_back(to_string(op));
  const std::string name = object.choice("op", names);
  for (const CollectiveOp op : kOps)
    if (to_string(op) == name) return op;
  return CollectiveOp::AllReduce;  // choice() has reported the error
}

// Reads one row. Its operation must be that of the run, which a file edited by hand may violate.
RunRow read_row(JsonFile& file, JsonObject& object, CollectiveOp op) {
  constexpr double kMost = 1e12;
  RunRow row{.bytes = object.integer(
                 "size_bytes", {.least = 1, .most = static_cast<std::int64_t>(kLogBytesMost)}),
             .dtype = object.text("dtype"),
             .time_us = object.number("time_us", {.least = 0.0, .most = kMost}),
             .algbw_GBps = object.number("algbw_GBps", {.least = 0.0, .most = kMost}),
             .busbw_GBps = object.number("busbw_GBps", {.least = 0.0, .most = kMost}),
             .in_place = object.boolean("in_place", false)};
  if (read_op(object) != op && file.is_sound(object.pointer("op")))
    file.report(object.pointer("op"), "is another operation than the run's",
                "put it into a run of its own");
  if (!is_measured_time(row.time_us) && file.is_sound(object.pointer("time_us")))
    file.report(object.pointer("time_us"),
                fmt::format("{} us is no time that a clock measures", row.time_us),
                "leave the row out");
  return row;
}

MeasuredRun read_run(JsonFile& file, JsonObject& object) {
  MeasuredRun run{.file = object.text("file"),
                  .op = read_op(object),
                  .gpu = object.text("gpu", ""),
                  .nccl_version = object.text("nccl_version", ""),
                  .cuda_graph = object.boolean("cuda_graph", false),
                  .notes = object.texts("notes", std::vector<std::string>{})};
  constexpr std::int64_t kRanksMost = 1 << 24;
  run.ranks = static_cast<std::uint32_t>(object.integer("ranks", {.least = 2, .most = kRanksMost}));
  run.nodes = static_cast<std::uint32_t>(object.integer("nodes", {.least = 1, .most = kRanksMost}));
  for (JsonObject& row : object.objects("rows")) run.rows.push_back(read_row(file, row, run.op));
  return run;
}

std::string source_of(const std::vector<MeasuredRun>& runs) {
  std::vector<std::string> files;
  for (const MeasuredRun& run : runs)
    if (std::find(files.begin(), files.end(), run.file) == files.end()) files.push_back(run.file);
  return fmt::format("nccl-tests: {}", fmt::join(files, ", "));
}

}  // namespace

const MeasuredCurve* CollectiveProfile::find(const ProfileQuery& question) const {
  const MeasuredCurve* best = nullptr;
  int best_rank = 0;
  for (const MeasuredCurve& curve : curves) {
    if (curve.op != question.op || curve.ranks != question.ranks || curve.nodes != question.nodes)
      continue;
    const bool same_type = curve.dtype == nccl_type_name(question.dtype);
    // The data type counts more than whether the operation was in place.
    const int rank = 1 + (same_type ? 2 : 0) + (curve.in_place ? 0 : 1);
    if (rank > best_rank) best = &curve, best_rank = rank;
  }
  return best;
}

CollectiveProfile make_collective_profile(std::vector<MeasuredRun> runs, std::string imported) {
  CollectiveProfile profile{.source = source_of(runs), .imported = std::move(imported)};
  profile.curves = curves_of(runs);
  profile.runs = std::move(runs);
  return profile;
}

nlohmann::ordered_json to_json(const CollectiveProfile& profile) {
  Json document;
  document["schema"] = kSchema;
  document["version"] = kVersion;
  document["source"] = profile.source;
  document["imported"] = profile.imported;
  document["runs"] = Json::array();
  for (const MeasuredRun& run : profile.runs) document["runs"].push_back(run_json(run));
  document["fits"] = Json::array();
  for (const MeasuredCurve& curve : profile.curves) document["fits"].push_back(fit_json(curve));
  return document;
}

CollectiveProfile read_collective_profile(const std::filesystem::path& path) {
  JsonFile file = JsonFile::read(path);
  JsonObject root = file.root();
  (void)root.choice("schema", {std::string(kSchema)});
  (void)root.integer(
      "version",
      {.least = kVersion, .most = kVersion, .remedy = "import the logs again with this trainyard"});
  CollectiveProfile profile{.source = root.text("source"), .imported = root.text("imported", "")};
  // The fits follow from the rows, so they are computed anew.
  (void)root.raw("fits");
  for (JsonObject& run : root.objects("runs")) profile.runs.push_back(read_run(file, run));
  if (std::all_of(profile.runs.begin(), profile.runs.end(),
                  [](const MeasuredRun& run) { return run.rows.empty(); }))
    file.report("/runs", "holds no row", "import a log: trainyard import nccl-tests LOG");
  file.finish();
  profile.curves = curves_of(profile.runs);
  return profile;
}

// The schema is near the beginning of the file, so the text is not parsed.
bool is_collective_profile(std::string_view text) {
  return text.substr(0, 4096).find(kSchema) != std::string_view::npos;
}

}  // namespace trainyard
