#include "scenarios/reader/named_parts.hpp"

#include <nlohmann/json.hpp>

#include "scenarios/import/model_file.hpp"
#include "sim/base/data_directory.hpp"
#include "topologies/cluster_reader.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

Json* text_at(Json& document, const std::string& pointer) {
  const Json::json_pointer place(pointer);
  if (!document.contains(place) || !document.at(place).is_string()) return nullptr;
  return &document.at(place);
}

}  // namespace

bool is_path(const std::string& text) {
  return text.ends_with(".json") || text.find('/') != std::string::npos;
}

std::string file_near(const std::filesystem::path& folder, const std::string& name) {
  std::error_code error;
  const std::filesystem::path near = folder / name;
  return std::filesystem::is_regular_file(near, error) ? near.string() : name;
}

std::string scenario_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::path(path).is_absolute() || std::filesystem::exists(path, error))
    return path;
  if (const auto file = find_in_data(path)) return file->string();
  (void)data_directory();  // throws where there are no shipped data at all
  return path;
}

std::string located(const std::filesystem::path& folder, const std::string& name) {
  return is_path(name) ? file_near(folder, name) : name;
}

void expand_named_part(Json& document, const std::string& pointer,
                       const std::filesystem::path& folder) {
  if (Json* const model = pointer.starts_with("/model/") ? text_at(document, "/model") : nullptr) {
    *model = model_fields(located(folder, model->get<std::string>()));
    (*model)["name"] = (*model)["name"].get<std::string>() + ", changed";
  }
  constexpr std::string_view kNode = "/cluster/node";
  const bool in_node = pointer.starts_with(std::string(kNode) + "/");
  if (Json* const node = in_node ? text_at(document, std::string(kNode)) : nullptr)
    *node = node_fields(located(folder, node->get<std::string>()));
}

}  // namespace trainyard
