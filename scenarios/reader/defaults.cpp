#include "scenarios/reader/defaults.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "models/architecture/architecture.hpp"
#include "models/architecture/recipe.hpp"
#include "models/framework_file.hpp"
#include "scenarios/import/model_file.hpp"
#include "scenarios/reader/named_parts.hpp"
#include "sim/base/data_directory.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRecord = "applied_defaults";
constexpr const char* kGradients = "/training/gradient_precision";

// Converts "/parallelism/overlap_p2p" to "parallelism.overlap_p2p", the form that --set takes.
std::string field_of(std::string pointer) {
  std::replace(pointer.begin(), pointer.end(), '/', '.');
  return pointer.substr(1);
}

std::string pointer_of(std::string field) {
  std::replace(field.begin(), field.end(), '.', '/');
  return "/" + field;
}

// Returns the text at the pointer, or the fallback where there is none.
std::string text_at(const Json& document, const char* place, const char* fallback) {
  const Json::json_pointer pointer(place);
  return document.contains(pointer) && document.at(pointer).is_string()
             ? document.at(pointer).get<std::string>()
             : fallback;
}

// Returns false too for a model that cannot be read; the reader of scenarios reports that.
bool has_experts(const Json& document, const std::filesystem::path& folder) {
  if (!document.contains("model")) return false;
  const Json& model = document.at("model");
  if (model.is_object()) {
    const auto experts = model.find("experts");
    return experts != model.end() && experts->is_number() && experts->get<double>() > 0.0;
  }
  if (!model.is_string()) return false;
  try {
    return load_model(located(folder, model.get<std::string>())).has_experts();
  } catch (const InputError&) {
    return false;
  }
}

// Returns whether the recipe determines the bytes of gradients, and so the precision in which they
// are sent.
bool recipe_says_gradients(const Json& document) {
  const std::string recipe = text_at(document, "/training/recipe", Training{}.recipe.c_str());
  const std::vector<std::string> known = data_names("models/recipes");
  return std::ranges::find(known, recipe) != known.end() &&
         load_recipe(recipe).gradient_bytes.has_value();
}

// Returns whether the field may be filled in. A section that the reader will refuse stays as it is.
bool is_open(const Json& document, const std::string& section, const Json::json_pointer& field) {
  if (document.contains(field)) return false;
  if (section.empty()) return true;
  // A "training" that is missing stays missing: the reader reports it, and a filled-in one would
  // hide it.
  if (!document.contains(section)) return section != "training";
  return document.at(section).is_object();
}

// Fills in the fields of one practice that the document leaves open.
void apply(const Practice& practice, Json& document, std::vector<AppliedDefault>& applied) {
  const auto fill = [&](const std::string& section, const std::string& pointer, const Json& value) {
    const Json::json_pointer place(pointer);
    if (!is_open(document, section, place)) return;
    if (pointer == kGradients && recipe_says_gradients(document)) return;
    document[place] = value;
    applied.push_back(
        {.field = field_of(pointer), .value = value.dump(), .source = practice.source});
  };
  for (const auto& [key, value] : practice.scenario.items()) {
    if (!value.is_object()) fill("", "/" + key, value);
    if (!value.is_object()) continue;
    for (const auto& [inner, setting] : value.items())
      fill(key, fmt::format("/{}/{}", key, inner), setting);
  }
}

// Returns the recorded defaults whose values are still in the document.
std::vector<AppliedDefault> recorded(JsonFile& file) {
  std::vector<AppliedDefault> record;
  JsonObject root = file.root();
  for (JsonObject& entry : root.objects(kRecord)) {
    AppliedDefault one{.field = entry.text("field"),
                       .value = entry.raw("value").dump(),
                       .source = entry.text("source")};
    if (one.field.find('~') != std::string::npos) continue;  // no field of a scenario
    const Json::json_pointer place(pointer_of(one.field));
    if (file.document().contains(place) && file.document().at(place).dump() == one.value)
      record.push_back(std::move(one));
  }
  return record;
}

void take_out(Json& document, const std::vector<AppliedDefault>& record) {
  for (const AppliedDefault& one : record) {
    const Json::json_pointer place(pointer_of(one.field));
    Json& section = document.at(place.parent_pointer());
    if (section.is_object()) section.erase(place.back());
  }
}

// Removes the recorded defaults that none of the practices fills in, from the document and from the
// record: those of another framework or another precision, which the file named before.
void forget_others(const std::vector<Practice>& practices, Json& document,
                   std::vector<AppliedDefault>& record) {
  const auto is_other = [&](const AppliedDefault& one) {
    return std::ranges::find(practices, one.source, &Practice::source) == practices.end();
  };
  std::vector<AppliedDefault> others;
  std::ranges::copy_if(record, std::back_inserter(others), is_other);
  std::erase_if(record, is_other);
  take_out(document, others);
}

}  // namespace

std::vector<AppliedDefault> apply_defaults(JsonFile& file, const std::filesystem::path& folder) {
  Json& document = file.document();
  if (!document.is_object()) return {};
  // A resolved scenario contains its defaults as ordinary fields. Its record shows which fields
  // they are, so that another framework or "ideal" can replace them.
  std::vector<AppliedDefault> applied = recorded(file);
  if (text_at(document, "/defaults", "framework") == "ideal") {
    take_out(document, applied);
    return {};
  }
  const std::string framework = text_at(document, "/framework", Scenario{}.framework.c_str());
  const std::vector<std::string> known = data_names("models/frameworks");
  if (std::ranges::find(known, framework) == known.end()) return applied;
  const std::string precision = text_at(document, "/training/precision", "bf16");
  const bool experts = has_experts(document, folder);
  std::vector<Practice> practices = load_practices(framework);
  std::erase_if(practices,
                [&](const Practice& practice) { return !practice.when.holds(precision, experts); });
  // Comes before the practices are applied, because it opens fields for them.
  forget_others(practices, document, applied);
  for (const Practice& practice : practices) apply(practice, document, applied);
  return applied;
}

std::vector<Problem> attribute_to_defaults(std::vector<Problem> problems,
                                           const std::vector<AppliedDefault>& applied) {
  for (Problem& problem : problems) {
    for (const AppliedDefault& one : applied)
      if (problem.pointer == pointer_of(one.field))
        problem.problem += fmt::format("; {} is a default of the framework", one.value);
  }
  return problems;
}

std::vector<std::string> default_sentences(const std::vector<AppliedDefault>& applied) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_source;
  for (const AppliedDefault& one : applied) {
    const auto found =
        std::ranges::find(by_source, one.source, [](const auto& e) { return e.first; });
    auto& fields = found == by_source.end()
                       ? by_source.emplace_back(one.source, std::vector<std::string>{}).second
                       : found->second;
    fields.push_back(fmt::format("{} = {}", one.field, one.value));
  }
  std::vector<std::string> sentences;
  for (const auto& [source, fields] : by_source)
    sentences.push_back(fmt::format("{}: {}", fmt::join(fields, ", "), source));
  return sentences;
}

}  // namespace trainyard
