#include "tools/studies/validate/goodput/row_json.hpp"

#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::optional<double> number_at(const Json& object, const char* key) {
  if (!object.contains(key) || !object[key].is_number()) return {};
  return object[key].get<double>();
}

Json study_data(const std::string& name) {
  const auto file = data_file("tools/studies/validate/data", name);
  return parse_json(file.string(), read_file(file));
}

}  // namespace trainyard
