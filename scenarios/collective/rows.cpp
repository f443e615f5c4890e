#include "scenarios/collective/rows.hpp"

#include <fmt/format.h>

namespace trainyard {

namespace {

constexpr double kMicro = 1e6;
constexpr double kGiga = 1e-9;

// A cell that holds a comma stands in quotes.
std::string cell(const std::string& text) {
  return text.find(',') == std::string::npos ? text : "\"" + text + "\"";
}

}  // namespace

std::int64_t element_count(const CollectiveStudy& study, std::int64_t bytes) {
  const bool parts = study.op == CollectiveOp::AllGather ||
                     study.op == CollectiveOp::ReduceScatter || study.op == CollectiveOp::AllToAll;
  const auto width = static_cast<std::int64_t>(element_bytes(study.dtype));
  return bytes / width / (parts ? study.ranks : 1);
}

nlohmann::ordered_json study_json(const CollectiveStudy& study) {
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
      rows.push_back(std::move(object));
    }
  }
  return rows;
}

std::string study_csv(const CollectiveStudy& study) {
  std::string text =
      "op,algorithm,protocol,ranks,size_bytes,count,time_us,latency_us,algbw_GBps,busbw_GBps,"
      "bottleneck,link,link_load\n";
  for (const AlgorithmStudy& algorithm : study.algorithms) {
    for (const CollectiveRow& row : algorithm.rows) {
      text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}\n", to_string(study.op),
                          algorithm.algorithm, cell(row.choice), study.ranks, row.bytes,
                          element_count(study, row.bytes), row.time_s * kMicro,
                          row.latency_s * kMicro, row.algbw * kGiga, row.busbw * kGiga,
                          row.bottleneck(), row.link ? to_string(row.link->kind) : "",
                          row.link ? fmt::format("{}", row.link->load) : "");
    }
  }
  return text;
}

}  // namespace trainyard
