// Descriptions of the fields of a JSON object. One description serves reading, writing and the JSON
// Schema, so the three stay consistent.
//
//    const Field<Parallelism> rows[] = {
//        {"tensor", "ranks that share each layer", Whole<Parallelism>{&Parallelism::tensor}}};
//    read_fields<Parallelism>(object, rows, {});   // problems go to the object's file
//
// The default of a field is the value of its member in a default-constructed structure. It is
// defined nowhere else.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim/base/json_reader.hpp"

namespace trainyard {

// The largest value of a count. The product of three counts stays far below 2^63.
inline constexpr std::int64_t kCountMost = 1'000'000;
// The largest number of tokens or columns.
inline constexpr std::int64_t kLengthMost = 100'000'000;

// A whole number.
template <class Owner>
struct Whole {
  std::int64_t Owner::*member;
  std::int64_t least = 1;
  std::int64_t most = kCountMost;
  bool required = false;
  std::string_view remedy = {};  // hint for a value out of range
};

// A whole number that may be absent. Absence differs from every value.
template <class Owner>
struct OptionalWhole {
  std::optional<std::int64_t> Owner::*member;
  std::int64_t least = 1;
  std::int64_t most = kCountMost;
};

template <class Owner>
struct Real {
  double Owner::*member;
  double least = 0.0;
  double most = std::numeric_limits<double>::infinity();
  bool positive = false;  // zero is refused, although it is the least
};

template <class Owner>
struct Seed {
  std::uint64_t Owner::*member;
};

template <class Owner>
struct Flag {
  bool Owner::*member;
};

// Free text.
template <class Owner>
struct Text {
  std::string Owner::*member;
  bool required = false;
};

template <class Owner>
struct Texts {
  std::vector<std::string> Owner::*member;
};

// A list of whole numbers; the default is an empty list.
template <class Owner>
struct Wholes {
  std::vector<std::int64_t> Owner::*member;
  std::int64_t least = 0;
  std::int64_t most = kCountMost;
};

// Whole numbers by name, where the user chooses the names, in the order of the file; the default is
// empty.
template <class Owner>
struct NamedWholes {
  using Entries = std::vector<std::pair<std::string, std::int64_t>>;
  Entries (*get)(const Owner&);
  void (*add)(Owner&, const std::string& name, std::int64_t number);
  std::int64_t least = 0;
  std::int64_t most = kCountMost;
};

// One word of a closed set: a registry, or the names of an enumeration. If the user can extend the
// registry, a file path is also accepted.
template <class Owner>
struct Choice {
  std::vector<std::string> (*choices)();
  std::string (*get)(const Owner&);
  void (*set)(Owner&, const std::string&);
  bool or_file = false;  // also accepts a path that ends in ".json"
  bool required = false;
};

// A list of words of a closed set. `unknown` is the message for any other word, which replaces its
// braces.
template <class Owner>
struct WordList {
  std::vector<std::string> (*choices)();
  std::vector<std::string> (*get)(const Owner&);
  void (*set)(Owner&, const std::vector<std::string>&);
  std::string_view unknown;
};

// Numbers that a source may leave out.
template <class Owner>
struct OptionalNumber {
  std::optional<double> Owner::*member;
  double least = 0.0;
  double most = std::numeric_limits<double>::infinity();
};
// A quantity with its unit that a source may leave out.
template <class Owner, class Quantity>
struct OptionalQuantity {
  std::optional<Quantity> Owner::*member;
};
template <class Owner>
using OptionalTime = OptionalQuantity<Owner, Seconds>;
template <class Owner>
using OptionalBytes = OptionalQuantity<Owner, Bytes>;
template <class Owner>
using OptionalRate = OptionalQuantity<Owner, BytesPerSecond>;
template <class Owner>
using OptionalFlopsRate = OptionalQuantity<Owner, FlopsPerSecond>;

// A value with its own reader and writer, such as a list of NICs or a nested object.
template <class Owner>
struct Own {
  void (*read)(JsonObject& object, std::string_view key, Owner& owner);
  // Returns null for a field that is not written; no function: it never is.
  nlohmann::ordered_json (*write)(const Owner& owner) = nullptr;
  // No function: the schema does not restrict the value.
  nlohmann::ordered_json (*schema)(const Owner& defaults) = nullptr;
  bool required = false;
};

template <class Owner>
struct Field {
  std::string_view key;
  std::string_view meaning;  // a phrase, for editors
  std::variant<Whole<Owner>, OptionalWhole<Owner>, Real<Owner>, Seed<Owner>, Flag<Owner>,
               Text<Owner>, Texts<Owner>, Wholes<Owner>, NamedWholes<Owner>, Choice<Owner>,
               WordList<Owner>, OptionalNumber<Owner>, OptionalTime<Owner>, OptionalBytes<Owner>,
               OptionalRate<Owner>, OptionalFlopsRate<Owner>, Own<Owner>>
      kind;
  // Called after the preceding fields are read. If it returns false, the field is an unknown key.
  bool (*applies)(const Owner&) = nullptr;

  [[nodiscard]] bool is_of(const Owner& owner) const {
    return applies == nullptr || applies(owner);
  }
};

namespace field {

using Json = nlohmann::ordered_json;

// These functions do what reading, writing and the schema of a kind need no owner for. field.cpp
// compiles them once; templates would compile them for each structure that has such a field.

[[nodiscard]] bool names_json_file(const Json& value);

// Returns nothing, after a report, for a value that is no such list; also for an absent one.
[[nodiscard]] std::optional<std::vector<std::int64_t>> read_wholes(JsonObject& object,
                                                                   std::string_view key,
                                                                   std::int64_t least,
                                                                   std::int64_t most);
[[nodiscard]] double read_real(JsonObject& object, std::string_view key, const NumberRule& rule,
                               bool positive);

[[nodiscard]] Json to_json(std::int64_t value);
[[nodiscard]] Json to_json(std::uint64_t value);
[[nodiscard]] Json to_json(double value);
[[nodiscard]] Json to_json(bool value);
[[nodiscard]] Json to_json(const std::string& value);
[[nodiscard]] Json to_json(const std::vector<std::string>& value);
[[nodiscard]] Json to_json(const std::vector<std::int64_t>& value);
[[nodiscard]] Json to_json(const std::vector<std::pair<std::string, std::int64_t>>& value);

[[nodiscard]] Json whole_schema(std::int64_t least, std::int64_t most,
                                std::optional<std::int64_t> fallback);
[[nodiscard]] Json real_schema(double least, double most, bool positive, double fallback);
[[nodiscard]] Json seed_schema(std::uint64_t fallback);
[[nodiscard]] Json flag_schema(bool fallback);
[[nodiscard]] Json text_schema();
[[nodiscard]] Json texts_schema();
[[nodiscard]] Json wholes_schema(std::int64_t least, std::int64_t most);
[[nodiscard]] Json named_wholes_schema(std::int64_t least, std::int64_t most);
[[nodiscard]] Json choice_schema(const std::vector<std::string>& choices, bool or_file,
                                 const std::optional<std::string>& fallback);
[[nodiscard]] Json word_list_schema(const std::vector<std::string>& choices,
                                    const std::vector<std::string>& fallback);
[[nodiscard]] Json optional_number_schema(double least, double most);
[[nodiscard]] Json pattern_schema(const std::string& pattern);

// --- reading: an absent field keeps the default of its member ---

template <class Owner>
void read(JsonObject& object, std::string_view key, const Whole<Owner>& kind, Owner& owner) {
  IntegerRule rule{.least = kind.least, .most = kind.most, .remedy = kind.remedy};
  if (!kind.required) rule.fallback = owner.*kind.member;
  owner.*kind.member = object.integer(key, rule);
}
template <class Owner>
void read(JsonObject& object, std::string_view key, const OptionalWhole<Owner>& kind,
          Owner& owner) {
  if (!object.has(key)) return;
  owner.*kind.member = object.integer(key, {.least = kind.least, .most = kind.most});
}
template <class Owner>
void read(JsonObject& object, std::string_view key, const Real<Owner>& kind, Owner& owner) {
  owner.*kind.member = read_real(
      object, key, {.fallback = owner.*kind.member, .least = kind.least, .most = kind.most},
      kind.positive);
}
template <class Owner>
void read(JsonObject& object, std::string_view key, const Seed<Owner>& kind, Owner& owner) {
  owner.*kind.member = static_cast<std::uint64_t>(object.integer(key, {.fallback = 0, .least = 0}));
}
template <class Owner>
void read(JsonObject& object, std::string_view key, const Flag<Owner>& kind, Owner& owner) {
  owner.*kind.member = object.boolean(key, owner.*kind.member);
}
template <class Owner>
void read(JsonObject& object, std::string_view key, const Text<Owner>& kind, Owner& owner) {
  owner.*kind.member =
      object.text(key, kind.required ? std::nullopt : std::optional(owner.*kind.member));
}
template <class Owner>
void read(JsonObject& object, std::string_view key, const Texts<Owner>& kind, Owner& owner) {
  owner.*kind.member = object.texts(key, owner.*kind.member);
}
template <class Owner>
void read(JsonObject& object, std::string_view key, const Wholes<Owner>& kind, Owner& owner) {
  if (auto list = read_wholes(object, key, kind.least, kind.most))
    owner.*kind.member = std::move(*list);
}
template <class Owner>
void read(JsonObject& object, std::string_view key, const NamedWholes<Owner>& kind, Owner& owner) {
  if (!object.has(key)) return;
  JsonObject entries = object.object(key);
  for (const std::string& name : entries.keys())
    kind.add(owner, name, entries.integer(name, {.least = kind.least, .most = kind.most}));
}
template <class Owner>
void read(JsonObject& object, std::string_view key, const Choice<Owner>& kind, Owner& owner) {
  if (kind.or_file && object.has(key) && names_json_file(object.raw(key))) {
    kind.set(owner, object.text(key));
    return;
  }
  kind.set(owner, object.choice(key, kind.choices(),
                                kind.required ? std::nullopt : std::optional(kind.get(owner))));
}
template <class Owner>
void read(JsonObject& object, std::string_view key, const WordList<Owner>& kind, Owner& owner) {
  kind.set(owner, object.choices(key, kind.choices(), kind.unknown, kind.get(owner)));
}
template <class Owner>
void read(JsonObject& object, std::string_view key, const OptionalNumber<Owner>& kind,
          Owner& owner) {
  if (!object.has(key)) return;
  owner.*kind.member = object.number(key, {.least = kind.least, .most = kind.most});
}
inline Seconds quantity_at(JsonObject& object, std::string_view key, Seconds) {
  return object.time(key);
}
inline Bytes quantity_at(JsonObject& object, std::string_view key, Bytes) {
  return object.bytes(key);
}
inline BytesPerSecond quantity_at(JsonObject& object, std::string_view key, BytesPerSecond) {
  return object.rate(key);
}
inline FlopsPerSecond quantity_at(JsonObject& object, std::string_view key, FlopsPerSecond) {
  return object.flops_rate(key);
}
template <class Owner, class Quantity>
void read(JsonObject& object, std::string_view key, const OptionalQuantity<Owner, Quantity>& kind,
          Owner& owner) {
  if (object.has(key)) owner.*kind.member = quantity_at(object, key, Quantity{});
}
template <class Owner>
void read(JsonObject& object, std::string_view key, const Own<Owner>& kind, Owner& owner) {
  kind.read(object, key, owner);
}

// --- writing: an absent optional field gives null ---

template <class Owner, class Kind>
Json written(const Kind& kind, const Owner& owner) {
  return to_json(owner.*kind.member);
}
template <class Owner>
Json written(const OptionalWhole<Owner>& kind, const Owner& owner) {
  return owner.*kind.member ? to_json(*(owner.*kind.member)) : Json();
}
template <class Owner>
Json written(const NamedWholes<Owner>& kind, const Owner& owner) {
  return to_json(kind.get(owner));
}
template <class Owner>
Json written(const Choice<Owner>& kind, const Owner& owner) {
  return to_json(kind.get(owner));
}
template <class Owner>
Json written(const WordList<Owner>& kind, const Owner& owner) {
  return to_json(kind.get(owner));
}
template <class Owner>
Json written(const OptionalNumber<Owner>& kind, const Owner& owner) {
  return owner.*kind.member ? to_json(*(owner.*kind.member)) : Json();
}
template <class Owner, class Quantity>
Json written(const OptionalQuantity<Owner, Quantity>& kind, const Owner& owner) {
  return owner.*kind.member ? to_json(exact_text(*(owner.*kind.member))) : Json();
}
template <class Owner>
Json written(const Own<Owner>& kind, const Owner& owner) {
  return kind.write == nullptr ? Json() : kind.write(owner);
}

// --- the schema of one field, without its description ---

template <class Owner>
Json schema(const Whole<Owner>& kind, const Owner& owner) {
  // A zero that means "derived from other fields" is out of range, so it is no default in the
  // schema.
  const bool has_default = !kind.required && owner.*kind.member >= kind.least;
  return whole_schema(kind.least, kind.most,
                      has_default ? std::optional(owner.*kind.member) : std::nullopt);
}
template <class Owner>
Json schema(const OptionalWhole<Owner>& kind, const Owner&) {
  return whole_schema(kind.least, kind.most, {});
}
template <class Owner>
Json schema(const Real<Owner>& kind, const Owner& owner) {
  return real_schema(kind.least, kind.most, kind.positive, owner.*kind.member);
}
template <class Owner>
Json schema(const Seed<Owner>& kind, const Owner& owner) {
  return seed_schema(owner.*kind.member);
}
template <class Owner>
Json schema(const Flag<Owner>& kind, const Owner& owner) {
  return flag_schema(owner.*kind.member);
}
template <class Owner>
Json schema(const Text<Owner>&, const Owner&) {
  return text_schema();
}
template <class Owner>
Json schema(const Texts<Owner>&, const Owner&) {
  return texts_schema();
}
template <class Owner>
Json schema(const Wholes<Owner>& kind, const Owner&) {
  return wholes_schema(kind.least, kind.most);
}
template <class Owner>
Json schema(const NamedWholes<Owner>& kind, const Owner&) {
  return named_wholes_schema(kind.least, kind.most);
}
template <class Owner>
Json schema(const Choice<Owner>& kind, const Owner& owner) {
  return choice_schema(kind.choices(), kind.or_file,
                       kind.required ? std::nullopt : std::optional(kind.get(owner)));
}
template <class Owner>
Json schema(const WordList<Owner>& kind, const Owner& owner) {
  return word_list_schema(kind.choices(), kind.get(owner));
}
template <class Owner>
Json schema(const OptionalNumber<Owner>& kind, const Owner&) {
  return optional_number_schema(kind.least, kind.most);
}
inline std::string pattern_of(Seconds) { return time_pattern(); }
inline std::string pattern_of(Bytes) { return bytes_pattern(); }
inline std::string pattern_of(BytesPerSecond) { return rate_pattern(); }
inline std::string pattern_of(FlopsPerSecond) { return flops_rate_pattern(); }
template <class Owner, class Quantity>
Json schema(const OptionalQuantity<Owner, Quantity>&, const Owner&) {
  return pattern_schema(pattern_of(Quantity{}));
}
template <class Owner>
Json schema(const Own<Owner>& kind, const Owner& owner) {
  return kind.schema == nullptr ? Json::object() : kind.schema(owner);
}

// Calls the function with the kind that the row holds. std::visit would build a table of functions
// for each structure and each function, which took half of the compile time of the tables.
template <class Owner, class Function>
void with_kind(const Field<Owner>& row, const Function& function) {
  const auto call_one = [&](const auto* held) {
    if (held != nullptr) function(*held);
  };
  constexpr std::size_t kKinds = std::variant_size_v<decltype(row.kind)>;
  [&]<std::size_t... at>(std::index_sequence<at...>) {
    (call_one(std::get_if<at>(&row.kind)), ...);
  }(std::make_index_sequence<kKinds>());
}

template <class Kind>
bool is_required(const Kind& kind) {
  if constexpr (requires { kind.required; }) return kind.required;
  return false;
}

// The parts of an object's schema and its rows in order; `entry` is the schema of a row alone.
class ObjectSchema {
 public:
  void add(std::string_view key, std::string_view meaning, const Json& entry, bool required);
  [[nodiscard]] Json json() const;

 private:
  Json properties_ = Json::object();
  Json required_ = Json::array();
};

}  // namespace field

// Returns `owner` with every present field read into it. Problems go to the object's file.
template <class Owner>
[[nodiscard]] Owner read_fields(JsonObject& object, std::span<const Field<Owner>> rows,
                                Owner owner) {
  for (const Field<Owner>& row : rows) {
    if (!row.is_of(owner)) continue;
    field::with_kind(row, [&](const auto& kind) { field::read(object, row.key, kind, owner); });
  }
  return owner;
}

// Writes every field in the order of the rows; optional ones only if they have a value.
template <class Owner>
[[nodiscard]] nlohmann::ordered_json write_fields(std::span<const Field<Owner>> rows,
                                                  const Owner& owner) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Field<Owner>& row : rows) {
    if (!row.is_of(owner)) continue;
    nlohmann::ordered_json value;
    field::with_kind(row, [&](const auto& kind) { value = field::written(kind, owner); });
    if (!value.is_null()) json[std::string(row.key)] = std::move(value);
  }
  return json;
}

// Returns a JSON Schema of the rows for an object without other keys.
template <class Owner>
[[nodiscard]] nlohmann::ordered_json schema_of_fields(std::span<const Field<Owner>> rows,
                                                      const Owner& defaults) {
  field::ObjectSchema schema;
  for (const Field<Owner>& row : rows)
    field::with_kind(row, [&](const auto& kind) {
      schema.add(row.key, row.meaning, field::schema(kind, defaults), field::is_required(kind));
    });
  return schema.json();
}

}  // namespace trainyard
