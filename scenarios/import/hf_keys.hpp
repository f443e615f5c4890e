// The keys of one Hugging Face configuration: reads their values, and records which keys were
// read, which are missing, and which have a value of the wrong kind.
//
//    HfKeys keys(document, "config.json", "");
//    const std::int64_t layers = keys.need("num_hidden_layers");
//    const bool alibi = keys.flag("attn_config/alibi", false);   // of an object in the object
//    keys.finish("mpt");   // throws all that is missing or wrong, together
//
// A null counts as absent, as in the transformers library. Names are the ways to write one setting:
// the first is the one that messages use, and the first one in the file is read.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"

namespace trainyard {

class HfKeys {
 public:
  using Json = nlohmann::ordered_json;
  using Names = std::span<const std::string_view>;

  // `pointer` is where the configuration is in the file: "" or "/text_config".
  HfKeys(const Json& json, std::string file, std::string pointer)
      : json_(json), file_(std::move(file)), pointer_(std::move(pointer)) {}

  // Sets values of keys that the library's files omit where they are the defaults of the family.
  // assumed() lists those that were used, as "head_dim 256".
  void assume(Json defaults) { defaults_ = std::move(defaults); }
  [[nodiscard]] const std::vector<std::string>& assumed() const { return assumed_; }

  // ---- values. A missing key, or a value of the wrong kind, gives the fallback.

  // A whole number from 1 on. While it is missing it is 1, which keeps divisions valid.
  std::int64_t need(Names names);
  std::int64_t need(std::string_view name) { return need(Names(&name, 1)); }
  // A whole number from 0 on, or -1 where the key uses it for "none" or "the last".
  std::int64_t get(Names names, std::int64_t fallback);
  std::int64_t get(std::string_view name, std::int64_t fallback) {
    return get(Names(&name, 1), fallback);
  }
  // A whole number, or a list of one number for each layer, which must be equal.
  std::int64_t need_same(std::string_view name);
  bool flag(std::string_view name, bool fallback);
  double number(std::string_view name, double fallback);
  std::string text(std::string_view name);
  std::vector<std::string> texts(std::string_view name);      // of a list
  std::vector<std::int64_t> integers(std::string_view name);  // of a list
  [[nodiscard]] bool is_list(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name);
  // Counts keys as read whose values change nothing, or are said by another key.
  void skip(std::initializer_list<std::string_view> names) {
    read_.insert(names.begin(), names.end());
  }
  // The first of the names that the file has, or the first of all. All count as read.
  std::string_view written(Names names);

  // ---- problems

  // Records a problem with the value of a key.
  void report(std::string_view name, std::string problem, std::string hint);
  // True until a key is missing or wrong. Rules between values are checked while it is true.
  [[nodiscard]] bool is_sound() const { return missing_.empty() && problems_.empty(); }
  // Throws InputError if a key is missing or a value is wrong. `family` names the kind of model.
  void finish(std::string_view family) const;

  // ---- the record

  [[nodiscard]] bool was_read(std::string_view name) const { return read_.contains(name); }
  // Keys that have a value, affect the model as far as is known, and were not read, in the order
  // of the file. Keys of objects are written "attn_config/softmax_scale".
  [[nodiscard]] std::vector<std::string> not_read() const;

 private:
  const Json* find(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t least);
  std::optional<std::int64_t> whole(std::string_view name, const Json& value, std::int64_t least);
  void wrong_kind(std::string_view name, const Json& value, std::string_view wanted);

  const Json& json_;
  std::string file_;
  std::string pointer_;
  Json defaults_ = Json::object();
  std::vector<std::string> assumed_;
  std::set<std::string, std::less<>> read_;
  std::vector<std::string> missing_;
  std::vector<Problem> problems_;
};

// True for keys that change neither the parameters nor the cost of training: ids of tokens,
// constants of the initialisation, settings of inference, versions.
[[nodiscard]] bool is_without_cost(std::string_view key);

}  // namespace trainyard
