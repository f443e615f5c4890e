#include "scenarios/import/hf_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/base/nearest.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// The source of every shape that this file makes begins with this text.
constexpr std::string_view kSource = "Hugging Face config.json, model_type ";

[[noreturn]] void refuse_config(const std::string& file, std::string pointer, std::string problem,
                                std::string hint) {
  throw InputError(Problem{.file = file,
                           .pointer = std::move(pointer),
                           .problem = std::move(problem),
                           .hint = std::move(hint)});
}

// ---- the configuration of the language model

// Where the language model of a document is, its configuration, and the other parts of the model:
// those for images, sound and their connection to it.
struct TextPart {
  Json config;
  std::string pointer;
  std::vector<std::string> others = {};
};

// A model of several parts has its language model in one of these objects, which may itself be
// divided (thinker_config, and text_config in it). Settings of the whole that the part omits hold
// for it, too.
TextPart text_part(const Json& document) {
  constexpr std::array<std::string_view, 4> kParts{"text_config", "language_config", "llm_config",
                                                   "thinker_config"};
  constexpr std::array kOfTheWhole{"tie_word_embeddings", "quantization_config"};
  const auto is_object = [&](std::string_view name) {
    const auto found = document.find(name);
    return found != document.end() && found->is_object();
  };
  const auto name = std::ranges::find_if(kParts, is_object);
  if (name == kParts.end()) return {.config = document, .pointer = ""};
  TextPart part = text_part(*document.find(*name));
  part.pointer = fmt::format("/{}{}", *name, part.pointer);
  for (const char* key : kOfTheWhole)
    if (!part.config.contains(key) && document.contains(key)) part.config[key] = document.at(key);
  for (const auto& [key, value] : document.items())
    if (value.is_object() && key.ends_with("_config") && key != *name &&
        key != "quantization_config")
      part.others.push_back(key);
  return part;
}

void note_quantisation(const Json& config, HfShape& made) {
  const auto found = config.find("quantization_config");
  if (found == config.end() || !found->is_object()) return;
  const auto method = found->find("quant_method");
  const bool named = method != found->end() && method->is_string();
  made.notes.push_back(fmt::format(
      "the quantisation of the stored weights{} is no part of the shape: training.precision says "
      "how the model is trained",
      named ? fmt::format(" ({})", method->get<std::string>()) : ""));
}

// ---- the family

std::string are_understood(const std::vector<std::string>& keys, std::string_view understood) {
  return fmt::format("{} {} {}", fmt::join(keys, ", "), keys.size() == 1 ? "is" : "are",
                     understood);
}

// The keys of a model of an unknown type: those that every decoder has, and the others, which say
// what its parts are.
std::string unknown_parts(const Json& config) {
  HfKeys keys(config, "", "");
  read_usual_keys(keys);
  std::vector<std::string> usual;
  for (const auto& [key, value] : config.items())
    if (keys.was_read(key) && !value.is_null()) usual.push_back(key);
  const std::vector<std::string> others = keys.not_read();
  std::string text =
      usual.empty() ? "none of its keys is understood" : are_understood(usual, "understood");
  if (!others.empty()) text += "; " + are_understood(others, "not");
  return text;
}

const HfFamily& family_of(const TextPart& text, const std::string& type, const std::string& file) {
  if (const HfFamily* family = find_hf_family(type)) return *family;
  refuse_config(
      file, text.pointer + "/model_type",
      fmt::format("\"{}\" is not a model type whose parts are known here: {}", type,
                  unknown_parts(text.config)),
      "write the shape as the files of models/data do, or let `trainyard import hf-config --as "
      "llama` read it as a known type and say what it assumed; --families lists them");
}

const HfFamily& family_as(const std::string& as) {
  if (const HfFamily* family = find_hf_family(as)) return *family;
  refuse_config("", "", fmt::format("\"{}\" is not a model type whose parts are known here", as),
                suggestion(as, hf_model_types()));
}

std::string type_of(const TextPart& text, const std::string& file, bool needed) {
  const auto type = text.config.find("model_type");
  const bool absent = type == text.config.end() || type->is_null();
  if (!absent && type->is_string()) return type->get<std::string>();
  if (needed)
    refuse_config(file, text.pointer + "/model_type",
                  absent ? "is missing" : fmt::format("must be a text, not {}", shown(*type)),
                  "it names the kind of model, such as \"llama\"");
  return "";
}

}  // namespace

bool is_hf_config(const nlohmann::ordered_json& document) {
  return document.is_object() &&
         (document.contains("num_hidden_layers") || document.contains("model_type"));
}

HfShape shape_of_hf_config(const nlohmann::ordered_json& document, const std::string& file,
                           const std::string& as) {
  if (!document.is_object())
    refuse_config(file, "", fmt::format("must be an object, not {}", shown(document)),
                  "give the config.json of the weights' folder");
  const TextPart text = text_part(document);
  const std::string type = type_of(text, file, as.empty());
  const HfFamily& family = as.empty() ? family_of(text, type, file) : family_as(as);
  HfShape made;
  HfKeys keys(text.config, file, text.pointer);
  family.fill(keys, made);
  keys.finish(family.type);
  if (!as.empty() && as != type)
    made.notes.insert(
        made.notes.begin(),
        fmt::format("it is read as a {}, although its model_type is \"{}\"", as, type));
  if (!keys.assumed().empty())
    made.notes.push_back(fmt::format("the file omits, and the library's defaults are: {}",
                                     fmt::join(keys.assumed(), ", ")));
  note_quantisation(text.config, made);
  for (const std::string& other : text.others)
    made.notes.push_back(fmt::format("the part of {} is left out", other));
  if (const std::vector<std::string> rest = keys.not_read(); !rest.empty())
    made.notes.push_back(fmt::format("not looked at: {}", fmt::join(rest, ", ")));
  // Readers of a model get the shape alone. The notes are therefore written into its source, from
  // which notes_of_source() takes them again.
  std::string source = fmt::format("{}{}", kSource, type.empty() ? as : type);
  for (const std::string& note : made.notes) source += "; " + note;
  made.shape["source"] = source;
  return made;
}

std::vector<std::string> notes_of_source(const std::string& source) {
  std::vector<std::string> notes;
  if (!source.starts_with(kSource)) return notes;
  constexpr std::string_view kBetween = "; ";
  for (std::size_t at = source.find(kBetween); at != std::string::npos;) {
    const std::size_t begin = at + kBetween.size();
    at = source.find(kBetween, begin);
    notes.push_back(source.substr(begin, at == std::string::npos ? at : at - begin));
  }
  return notes;
}

std::vector<std::string> hf_model_types() {
  std::vector<std::string> types;
  for (const HfFamily& family : hf_families()) types.emplace_back(family.type);
  return types;
}

}  // namespace trainyard
