#include "models/practices.hpp"

#include "models/framework_file.hpp"
#include "sim/base/data_directory.hpp"

namespace trainyard {

namespace {

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
