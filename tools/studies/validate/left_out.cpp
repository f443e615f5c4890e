#include "tools/studies/validate/left_out.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

constexpr const char* kLeftOutFolder = "tools/studies/validate/data";

bool speaks_of(const LeftOut& entry, const MeasuredRow& row) {
  return std::find(entry.sources.begin(), entry.sources.end(), row.source) != entry.sources.end();
}

// The entries that speak of a row, by their place in the list.
std::vector<std::size_t> entries_of(const std::vector<LeftOut>& all, const MeasuredRow& row) {
  std::vector<std::size_t> places;
  for (std::size_t place = 0; place < all.size(); ++place)
    if (speaks_of(all[place], row)) places.push_back(place);
  return places;
}

std::vector<Setting> settings_of(const std::vector<LeftOut>& all,
                                 const std::vector<std::size_t>& places) {
  std::vector<Setting> settings;
  for (const std::size_t place : places)
    settings.insert(settings.end(), all[place].settings.begin(), all[place].settings.end());
  return settings;
}

}  // namespace

std::vector<LeftOut> load_left_out() {
  JsonFile file = JsonFile::read(data_file(kLeftOutFolder, "left_out"));
  JsonObject root = file.root();
  root.ignore("source");
  std::vector<LeftOut> all;
  for (JsonObject& entry : root.objects("left_out")) {
    static_cast<void>(entry.text("source"));
    LeftOut& made = all.emplace_back(LeftOut{.sources = entry.texts("sources"), .settings = {}});
    JsonObject constants = entry.object("constants");
    for (const std::string& name : constants.keys())
      made.settings.push_back(
          {.constant = read_constant(name), .value = constants.number(name, {.least = 0.0})});
  }
  file.finish();
  return all;
}

std::vector<Outcome> validate_left_out(const std::vector<MeasuredRow>& rows,
                                       const ValidateOptions& options) {
  const std::vector<LeftOut> all = load_left_out();
  std::map<std::vector<std::size_t>, std::vector<std::size_t>> rows_of;  // entries -> rows
  for (std::size_t index = 0; index < rows.size(); ++index)
    rows_of[entries_of(all, rows[index])].push_back(index);
  std::vector<Outcome> outcomes(rows.size());
  for (const auto& [entries, members] : rows_of) {
    std::optional<DataOverlay> data;
    ValidateOptions chosen = options;
    chosen.scenarios.clear();
    if (!entries.empty()) chosen.data = data.emplace(settings_of(all, entries)).folder();
    std::vector<MeasuredRow> own;
    for (const std::size_t index : members) own.push_back(rows[index]);
    const std::vector<Outcome> found = validate(own, chosen);
    for (std::size_t place = 0; place < members.size(); ++place)
      outcomes[members[place]] = found[place];
  }
  return outcomes;
}

}  // namespace trainyard
