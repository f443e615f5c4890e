#include "tools/studies/collective/rows.hpp"

#include <fmt/format.h>

#include "sim/base/csv.hpp"

namespace trainyard {

namespace {

constexpr double kMicro = 1e6;
constexpr double kGiga = 1e-9;

void add_measured(nlohmann::ordered_json& object, const CollectiveRow& row,
                  const MeasuredTime* time) {
  object["measured_time_us"] = nullptr;
  object["measured_busbw_GBps"] = nullptr;
  object["error"] = nullptr;
  if (time == nullptr) return;
  object["measured_time_us"] = time->time_s * kMicro;
  object["measured_busbw_GBps"] = time->busbw * kGiga;
  object["error"] = row.time_s / time->time_s - 1.0;
}

// Three cells with a comma before each.
std::string measured_cells(const CollectiveRow& row, const MeasuredTime* time) {
  if (time == nullptr) return ",,,";
  return fmt::format(",{},{},{}", time->time_s * kMicro, time->busbw * kGiga,
                     row.time_s / time->time_s - 1.0);
}

}  // namespace

std::int64_t element_count(const CollectiveStudy& study, std::int64_t bytes) {
  const bool parts = study.op == CollectiveOp::AllGather ||
                     study.op == CollectiveOp::ReduceScatter || study.op == CollectiveOp::AllToAll;
  const auto width = static_cast<std::int64_t>(element_bytes(study.dtype));
  return bytes / width / (parts ? study.ranks : 1);
}

nlohmann::ordered_json study_json(const CollectiveStudy& study, const MeasuredTimes* measured) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const AlgorithmStudy& algorithm : study.algorithms) {
    for (const CollectiveRow& row : algorithm.rows) {
      nlohmann::ordered_json object;
      object["op"] = to_string(study.op);
      object["algorithm"] = algorithm.algorithm;
      object["protocol"] = nullptr;
      if (!row.choice.empty()) object["protocol"] = row.choice;
      object["ranks"] = study.ranks;
      object["size_bytes"] = row.bytes;
      object["time_us"] = row.time_s * kMicro;
      object["algbw_GBps"] = row.algbw * kGiga;
      object["busbw_GBps"] = row.busbw * kGiga;
      object["bottleneck"] = row.bottleneck();
      if (measured != nullptr) add_measured(object, row, measured->at(row.bytes));
      rows.push_back(std::move(object));
    }
  }
  return rows;
}

std::string study_csv(const CollectiveStudy& study, const MeasuredTimes* measured) {
  std::string text =
      "op,algorithm,protocol,ranks,size_bytes,count,time_us,latency_us,algbw_GBps,busbw_GBps,"
      "bottleneck,link,link_load";
  text += measured == nullptr ? "\n" : ",measured_time_us,measured_busbw_GBps,error\n";
  for (const AlgorithmStudy& algorithm : study.algorithms) {
    for (const CollectiveRow& row : algorithm.rows) {
      text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}", to_string(study.op),
                          algorithm.algorithm, csv_field(row.choice), study.ranks, row.bytes,
                          element_count(study, row.bytes), row.time_s * kMicro,
                          row.latency_s * kMicro, row.algbw * kGiga, row.busbw * kGiga,
                          row.bottleneck(), row.link ? to_string(row.link->kind) : "",
                          row.link ? fmt::format("{}", row.link->load) : "");
      if (measured != nullptr) text += measured_cells(row, measured->at(row.bytes));
      text += '\n';
    }
  }
  return text;
}

}  // namespace trainyard
