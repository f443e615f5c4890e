#include "scenarios/import/model_file.hpp"

#include <filesystem>

#include "scenarios/import/hf_config.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

JsonFile model_file(const std::string& name_or_path) {
  JsonFile file = architecture_file(name_or_path);
  if (!is_hf_config(file.document())) return file;
  nlohmann::ordered_json shape = shape_of_hf_config(file.document(), file.name()).shape;
  if (!shape.contains("name")) shape["name"] = std::filesystem::path(file.name()).stem().string();
  return JsonFile::parse(file.name(), shape.dump());
}

}  // namespace

Architecture load_model(const std::string& name_or_path) {
  JsonFile file = model_file(name_or_path);
  Architecture architecture = read_architecture(file.root());
  file.finish();
  return architecture;
}

nlohmann::ordered_json model_fields(const std::string& name_or_path) {
  return model_file(name_or_path).document();
}

}  // namespace trainyard
