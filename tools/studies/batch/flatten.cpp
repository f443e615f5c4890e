#include "tools/studies/batch/flatten.hpp"

#include <string>

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

void flatten_into(const Json& value, const std::string& path, Json& flat) {
  if (!value.is_structured()) {
    flat[path] = value;
    return;
  }
  std::size_t number = 0;
  for (const auto& [key, item] : value.items()) {
    const std::string name = value.is_array() ? std::to_string(number++) : key;
    flatten_into(item, path.empty() ? name : path + '.' + name, flat);
  }
}

}  // namespace

Json flattened(const Json& value) {
  Json flat = Json::object();
  flatten_into(value, "", flat);
  return flat;
}

}  // namespace trainyard
