// The reports as CSV files.
#include <fmt/format.h>

#include <cmath>

#include "sim/base/csv.hpp"
#include "sim/base/files.hpp"
#include "sim/render/output_stream.hpp"
#include "sim/report/report.hpp"
#include "sim/report/result_json.hpp"
#include "sim/report/stage_summary.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

// Converts an array of flat objects to CSV. REQUIRES: all objects have the keys of the first.
std::string csv_of(const Json& rows) {
  check_numbers(rows);
  std::string text;
  for (const Json& row : rows) {
    if (text.empty()) {
      for (const auto& [key, value] : row.items()) text += (text.empty() ? "" : ",") + key;
      text += '\n';
    }
    std::string line;
    for (const auto& [key, value] : row.items()) line += csv_cell(value) + ",";
    line.back() = '\n';
    text += line;
  }
  return text;
}

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

// Writes a line per operation of the class's representative.
void write_class_spans(const RunView& view, std::size_t index, OutputStream& out) {
  const RankClass& ranks = view.partition.ranks[index];
  const Program& program = view.workload.programs.at(ranks.program);
  const Rank& rank = view.workload.ranks.at(ranks.representative);
  const OpTimes& times = view.timeline.classes.at(index);
  const std::uint32_t device = view.cluster.local_index(rank.gpu);
  std::size_t next = 0;
  for (const Operation& op : program.operations) {
    const std::size_t i = next++;
    out.print("{},{},{},{},{},{},{},{},{},{},{},{}\n", nanoseconds(times.start_s[i]),
              nanoseconds(times.end_s[i]), nanoseconds(times.ready_s[i]), device, op.stream, i + 1,
              csv_field(view.workload.names.at(op.name)), ranks.representative, index,
              to_string(op.kind), op.microbatch, op.layer);
  }
}

}  // namespace

std::string breakdown_csv(const RunView& view) { return csv_of(breakdown_json(view)); }
std::string links_csv(const RunView& view) { return csv_of(links_json(view)); }
std::string collectives_csv(const RunView& view) { return csv_of(collectives_json(view)); }

std::string memory_csv(const RunView& view) {
  std::string text =
      "stage,class,category,bytes_at_peak,peak_bytes,capacity_bytes,peak_at_s,fits\n";
  for (const StageMemory& stage : stage_memory(view)) {
    for (std::size_t category = 0; category < stage.peak.by_category.size(); ++category) {
      text += fmt::format("{},{},{},{},{},{},{},{}\n", stage.stage, stage.rank_class,
                          csv_field(view.workload.categories[category]),
                          stage.peak.by_category[category], stage.peak.bytes, stage.capacity_bytes,
                          Json(stage.peak.at_s).dump(), stage.fits);
    }
  }
  return text;
}

void write_csv_directory(const RunView& view, const std::filesystem::path& directory) {
  for (const ReportEntry& report : reports())
    if (report.csv != nullptr)
      write_file(directory / fmt::format("{}.csv", report.name), report.csv(view));
  OutputStream spans(directory / "spans.csv");
  spans.print(
      "start,end,ready,deviceId,streamId,correlationId,name,rank,class,kind,microbatch,layer\n");
  for (std::size_t index = 0; index < view.partition.ranks.size(); ++index) {
    write_class_spans(view, index, spans);
  }
  spans.close();
}

}  // namespace trainyard
