// Recorded loads of experts, from a file.
#include <fmt/format.h>

#include "models/expert_routing.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// One list of counts; problems go to the file.
std::vector<double> read_layer(JsonObject& root, const Json& list, std::int64_t experts) {
  std::vector<double> counts;
  double sum = 0.0;
  if (list.is_array()) {
    for (const Json& count : list) {
      counts.push_back(count.is_number() ? count.get<double>() : -1.0);
      if (counts.back() < 0.0) break;
      sum += counts.back();
    }
  }
  if (static_cast<std::int64_t>(counts.size()) == experts && sum > 0.0 && counts.back() >= 0.0)
    return counts;
  root.report("counts",
              fmt::format("has {} where the counts of {} experts belong", shown(list), experts),
              "give one number of tokens for each expert, not all zero");
  return std::vector<double>(static_cast<std::size_t>(experts), 1.0);
}

std::vector<std::vector<double>> read_table(JsonObject& root, const Json& table,
                                            const Architecture& a) {
  std::vector<std::vector<double>> layers;
  if (table.is_array()) {
    for (const Json& list : table) {
      layers.push_back(read_layer(root, list, a.experts));
      if (static_cast<std::int64_t>(layers.size()) > a.layers) break;
    }
  }
  const std::int64_t wanted = a.layers_of(LayerKind::Moe);
  if (static_cast<std::int64_t>(layers.size()) != wanted) {
    root.report(
        "counts",
        fmt::format("has {} layers, but {} has {} with experts", layers.size(), a.name, wanted),
        "give one list for each layer with experts");
  }
  return layers;
}

}  // namespace

ExpertCounts read_expert_counts(const std::string& name, const Architecture& architecture) {
  JsonFile file = JsonFile::read(name);
  JsonObject root = file.root();
  (void)root.text("source", "");
  const Json& counts = root.raw("counts");
  ExpertCounts read;
  const bool several = counts.is_array() && !counts.empty() && counts.front().is_array() &&
                       !counts.front().empty() && counts.front().front().is_array();
  if (several) {
    for (const Json& table : counts) read.tables.push_back(read_table(root, table, architecture));
  } else {
    read.tables.push_back(read_table(root, counts, architecture));
  }
  file.finish();
  return read;
}

}  // namespace trainyard
