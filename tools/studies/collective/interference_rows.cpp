// A study of groups as JSON and CSV (interference.hpp).
#include <fmt/format.h>

#include "tools/studies/collective/interference.hpp"

namespace trainyard {

nlohmann::ordered_json interference_json(const InterferenceStudy& study) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const GroupRow& row : study.rows) {
    nlohmann::ordered_json object;
    object["op"] = to_string(row.op);
    object["algorithm"] = row.algorithm;
    object["groups"] = row.groups;
    object["ranks"] = row.ranks;
    object["size_bytes"] = row.bytes;
    object["alone_us"] = row.alone_s * 1e6;
    object["together_us"] = row.together_s * 1e6;
    object["slowdown"] = row.slowdown();
    object["busbw_alone_GBps"] = row.busbw_alone() * 1e-9;
    object["busbw_together_GBps"] = row.busbw_together() * 1e-9;
    object["shared_link"] = nullptr;
    object["shared_by"] = nullptr;
    object["shared_link_load"] = nullptr;
    if (row.shared) {
      object["shared_link"] = row.shared->name;
      object["shared_by"] = row.shared->groups;
      object["shared_link_load"] = row.shared->load;
    }
    rows.push_back(std::move(object));
  }
  return rows;
}

std::string interference_csv(const InterferenceStudy& study) {
  std::string text =
      "op,algorithm,groups,ranks,size_bytes,alone_us,together_us,slowdown,busbw_alone_GBps,"
      "busbw_together_GBps,shared_link,shared_by,shared_link_load\n";
  for (const GroupRow& row : study.rows) {
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{}\n", to_string(row.op), row.algorithm, row.groups,
        fmt::join(row.ranks, " "), row.bytes, row.alone_s * 1e6, row.together_s * 1e6,
        row.slowdown(), row.busbw_alone() * 1e-9, row.busbw_together() * 1e-9,
        row.shared ? row.shared->name : "", row.shared ? fmt::format("{}", row.shared->groups) : "",
        row.shared ? fmt::format("{}", row.shared->load) : "");
  }
  return text;
}

}  // namespace trainyard
