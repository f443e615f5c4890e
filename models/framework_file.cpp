#include "models/framework_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard {

namespace {

constexpr const char* kFolder = "models/frameworks";
constexpr const char* kLike = "like";

// The parsed file is cached, because a search reads it for every scenario.
const nlohmann::json& parsed(const std::filesystem::path& file) {
  return read_once<nlohmann::json>(file, [](const std::filesystem::path& read) {
    static_cast<void>(JsonFile::read(read));  // reports syntax errors with their position
    return nlohmann::json::parse(read_file(read), nullptr, true, true);
  });
}

Practice read_practice(JsonObject entry, const std::string& name) {
  Practice practice{.name = name, .when = {}, .scenario = {}, .source = entry.text("source")};
  if (entry.has("when")) {
    JsonObject when = entry.object("when");
    practice.when.precision = when.text("precision", "");
    if (when.has("experts")) practice.when.experts = when.boolean("experts");
  }
  entry.ignore("scenario");
  practice.scenario = entry.raw("scenario");
  if (!practice.scenario.is_object() || practice.scenario.empty())
    entry.report("scenario", "must be an object with fields of a scenario");
  return practice;
}

void read_practices(JsonFile file, std::vector<Practice>& practices) {
  JsonObject root = file.root();
  for (const std::string& key : root.keys())
    if (key != "practices") root.ignore(key);
  if (root.has("practices")) {
    JsonObject entries = root.object("practices");
    for (const std::string& name : entries.keys())
      practices.push_back(read_practice(entries.object(name), name));
  }
  file.finish();
}

}  // namespace

// Only one level of "like" is allowed, so that a figure is in one of two files.
JsonFile framework_file(const std::string& name) {
  const std::filesystem::path file = data_file(kFolder, name);
  const nlohmann::json& own = parsed(file);
  if (!own.is_object() || !own.contains(kLike)) return JsonFile::read(file);
  const nlohmann::json& like = own[kLike];
  const std::vector<std::string> names = data_names(kFolder);
  const auto refuse = [&](const std::string& what) {
    throw InputError({file.string(), "/like", what,
                      fmt::format("give the name of a framework: {}", fmt::join(names, ", "))});
  };
  if (!like.is_string()) refuse("must be a text, got " + like.dump());
  if (std::ranges::find(names, like.get<std::string>()) == names.end())
    refuse(like.dump() + " is no framework");
  nlohmann::json whole = parsed(data_file(kFolder, like.get<std::string>()));
  if (whole.contains(kLike)) refuse(like.dump() + " is like another one itself");
  whole.merge_patch(own);
  whole.erase(kLike);
  return JsonFile::parse(file.string(), whole.dump());
}

bool PracticeCondition::holds(const std::string& of_precision, bool has_experts) const {
  return (precision.empty() || precision == of_precision) && (!experts || *experts == has_experts);
}

std::vector<Practice> load_practices(const std::string& framework) {
  std::vector<Practice> practices;
  read_practices(JsonFile::read(data_file("models/stragglers", "replicas")), practices);
  read_practices(framework_file(framework), practices);
  return practices;
}

}  // namespace trainyard
