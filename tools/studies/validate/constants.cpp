#include "tools/studies/validate/constants.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "kernels/gpu.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_constant(const std::string& name, const std::string& problem) {
  throw InputError(Problem{"--constants", "", fmt::format("\"{}\" {}", name, problem),
                           "for example kernels/profiles/h100.json#/gemm/sustained_time/value"});
}

// Takes a number, or a quantity as text, such as "4.5 us". The text after the number is the unit.
void take_value(Constant& constant, const Json& value) {
  if (value.is_number()) {
    constant.value = value.get<double>();
  } else if (value.is_string()) {
    const auto text = value.get<std::string>();
    char* end = nullptr;
    constant.value = std::strtod(text.c_str(), &end);
    constant.unit = end;
    constant.text = true;
    if (end == text.c_str()) refuse_constant(constant.name, "is no number");
  } else {
    refuse_constant(constant.name, "is no number");
  }
  if (!(constant.value > 0.0))
    refuse_constant(constant.name, "is not positive, as what is fitted must be");
}

fs::path file_of(const Constant& constant) {
  const std::optional<fs::path> file = find_in_data(constant.file);
  if (!file) throw InputError(Problem{constant.file, "", "no such data file", ""});
  return *file;
}

Constant read_one(const std::string& name) {
  const std::size_t mark = name.find("#/");
  if (mark == std::string::npos) refuse_constant(name, "is not FILE#/POINTER");
  Constant constant{.name = name, .file = name.substr(0, mark), .pointer = name.substr(mark + 1)};
  const fs::path file = file_of(constant);
  const Json document = parse_json(file.string(), read_file(file));
  const Json::json_pointer place(constant.pointer);
  if (!document.contains(place)) refuse_constant(name, "is not in the file");
  take_value(constant, document.at(place));
  return constant;
}

}  // namespace

Constant read_constant(const std::string& name) {
  std::size_t plus = name.find('+');
  Constant constant = read_one(name.substr(0, plus));
  while (plus != std::string::npos) {
    const std::size_t next = name.find('+', plus + 1);
    constant.also.push_back(read_one(name.substr(plus + 1, next - plus - 1)));
    plus = next;
  }
  constant.name = name;
  return constant;
}

std::vector<Setting> with_coupled_settings(const std::vector<Setting>& settings) {
  std::vector<Setting> all;
  for (const Setting& setting : settings) {
    all.push_back(setting);
    const double factor = setting.value / setting.constant.value;
    for (const Constant& other : setting.constant.also)
      all.push_back({.constant = other, .value = other.value * factor});
  }
  return all;
}

std::string file_with(const std::vector<Setting>& settings, const std::string& source) {
  const fs::path file = file_of(settings.front().constant);
  Json document = parse_json(file.string(), read_file(file));
  for (const Setting& setting : settings) {
    const Constant& constant = setting.constant;
    const Json::json_pointer place(constant.pointer);
    document[place] = constant.text ? Json(fmt::format("{:.6g}{}", setting.value, constant.unit))
                                    : Json(setting.value);
    Json& holder = document[place.parent_pointer()];
    if (!source.empty() && holder.is_object() && holder.contains("source")) {
      holder["source"] = source;
    }
  }
  return document.dump(2) + "\n";
}

namespace {

fs::path profile_file(const std::string& gpu) {
  return fs::path("kernels/profiles") / (gpu + ".json");
}

Json profile_of(const std::string& gpu) {
  const fs::path file = data_file(profile_file(gpu).parent_path().string(), gpu);
  return parse_json(file.string(), read_file(file));
}

// The data sheet of a profile, with the efficiencies of another GPU and its generation.
Json data_sheet(const Json& profile, const PricedAs& priced) {
  Json sheet = {{"derived_from", priced.other},
                {"generation", profile_of(priced.other).at("generation")}};
  for (const char* key : {"schema", "version", "title", "sheet", "communication_sms"})
    sheet[key] = profile.at(key);
  return sheet;
}

// A GPU that takes its efficiencies from the one left out would still use its tables, so it is
// priced by the other GPU too.
void write_data_sheets(const fs::path& folder, const PricedAs& priced) {
  for (const std::string& gpu : gpu_names()) {
    const Json profile = profile_of(gpu);
    if (gpu == priced.gpu || profile.value("derived_from", "") == priced.gpu)
      write_file(folder / profile_file(gpu), data_sheet(profile, priced).dump(1) + "\n");
  }
}

}  // namespace

DataOverlay::DataOverlay(const std::vector<Setting>& settings, const std::vector<PricedAs>& gpus) {
  std::map<std::string, std::vector<Setting>> by_file;
  for (const Setting& setting : with_coupled_settings(settings))
    by_file[setting.constant.file].push_back(setting);
  std::string pattern = (fs::temp_directory_path() / "trainyard-data-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    throw InputError(Problem{pattern, "", "cannot be made", "set TMPDIR to a folder with room"});
  }
  folder_ = pattern;
  fs::create_directories(folder_ / "kernels");  // a folder of data, even without settings
  for (const auto& [file, members] : by_file) write_file(folder_ / file, file_with(members, ""));
  for (const PricedAs& priced : gpus) write_data_sheets(folder_, priced);
}

DataOverlay::~DataOverlay() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace trainyard
