// A strict JSON reader: the program reads every field by name, and a key that it never reads is an
// error.
//
// Problems are collected, not thrown, so that the user sees all problems of a file at once;
// `finish` throws them. Comments are accepted; duplicate keys are errors.
//
//    JsonFile file = JsonFile::read("scenario.json");
//    JsonObject root = file.root();
//    std::int64_t ranks = root.object("parallelism").integer("tensor", {.fallback = 1});
//    BytesPerSecond nic = root.rate("nic");   // "50 GB/s"
//    file.finish();                           // throws unknown keys and all problems together
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/units.hpp"

namespace trainyard {

struct IntegerRule {
  std::optional<std::int64_t> fallback = {};  // nothing: the field is required
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::string_view remedy = {};  // hint for a number out of range
};
struct NumberRule {
  std::optional<double> fallback = {};
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};

class JsonObject;

// A parsed file and the problems found in it so far. Its JsonObjects refer to it and must not
// outlive it (a move is allowed).
class JsonFile {
 public:
  // Throws InputError immediately for input that cannot be parsed: a missing file, a syntax error
  // (with line and column), a duplicate key.
  [[nodiscard]] static JsonFile read(const std::filesystem::path& file);
  [[nodiscard]] static JsonFile parse(std::string name, std::string_view text);

  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;
  JsonFile(JsonFile&&) noexcept;
  JsonFile& operator=(JsonFile&&) noexcept;
  ~JsonFile();

  [[nodiscard]] JsonObject root();
  // The document itself, for overrides before it is read.
  [[nodiscard]] nlohmann::ordered_json& document();
  [[nodiscard]] const std::string& name() const;

  void report(std::string pointer, std::string problem, std::string hint = "");
  // Adds problems found elsewhere (an included file), which finish() throws with this file's.
  void report(const std::vector<Problem>& problems);
  [[nodiscard]] bool has_problems() const;
  // Sets remedies for unknown keys that other programs use ("tp" -> "here it is called tensor").
  // They take precedence over "did you mean". Upper case, '-' instead of '_', and leading dashes
  // are ignored.
  void explain_unknown(std::map<std::string, std::string> remedies);
  // The same for words that a field does not take, such as those of an earlier release.
  void explain_unknown_words(std::map<std::string, std::string> remedies);
  // False if there is a problem at the pointer, below it, or above it. The value read there then is
  // a fallback and must not be checked further.
  [[nodiscard]] bool is_sound(std::string_view pointer) const;
  // Reports every key that has not been read so far (with "did you mean"), each once.
  void report_unknown_keys();
  // Reports the unknown keys, then throws InputError if there are any problems.
  void finish();

  struct State;

 private:
  explicit JsonFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// An object of the file. For a field of the wrong kind or out of range it reports a problem and
// returns the fallback (or zero), so that reading continues.
class JsonObject {
 public:
  [[nodiscard]] bool has(std::string_view key) const;
  // Returns the JSON pointer of a key, or of the object itself.
  [[nodiscard]] std::string pointer(std::string_view key = "") const;

  [[nodiscard]] std::int64_t integer(std::string_view key, const IntegerRule& rule = {});
  [[nodiscard]] double number(std::string_view key, const NumberRule& rule = {});
  [[nodiscard]] bool boolean(std::string_view key, std::optional<bool> fallback = {});
  [[nodiscard]] std::string text(std::string_view key,
                                 const std::optional<std::string>& fallback = {});
  // Reads one word of a closed set. The problem lists the set and the nearest word.
  [[nodiscard]] std::string choice(std::string_view key, const std::vector<std::string>& choices,
                                   const std::optional<std::string>& fallback = {});
  // Reads a list of words of a closed set. `unknown` is the message for any other word, which
  // replaces its braces.
  [[nodiscard]] std::vector<std::string> choices(std::string_view key,
                                                 const std::vector<std::string>& known,
                                                 std::string_view unknown,
                                                 std::vector<std::string> fallback);
  // Read a number with its unit: "2 us", "80 GiB", "450 GB/s", "312 TFLOP/s". For a number without
  // a unit the problem lists the accepted units. Rates in Gb/s (bits) are accepted, as vendors give
  // them for networks. Negative values are errors.
  [[nodiscard]] Seconds time(std::string_view key, std::optional<Seconds> fallback = {});
  [[nodiscard]] Bytes bytes(std::string_view key, std::optional<Bytes> fallback = {});
  [[nodiscard]] BytesPerSecond rate(std::string_view key,
                                    std::optional<BytesPerSecond> fallback = {});
  [[nodiscard]] FlopsPerSecond flops_rate(std::string_view key,
                                          std::optional<FlopsPerSecond> fallback = {});
  [[nodiscard]] std::vector<std::string> texts(
      std::string_view key, const std::optional<std::vector<std::string>>& fallback = {});

  // Reads a nested object. If it is absent, the result is an empty object (whose required fields
  // are then reported as missing).
  [[nodiscard]] JsonObject object(std::string_view key);
  // Reads a nested object whose absent fields are those of `base` (a JSON merge patch, RFC 7386).
  // Its field `without`, which chose the base, is taken out. The document then holds all fields.
  // REQUIRES: the value is an object, which nobody reads yet.
  [[nodiscard]] JsonObject object_over(std::string_view key, const nlohmann::ordered_json& base,
                                       std::string_view without);
  // Reads an array of objects; absent: none.
  [[nodiscard]] std::vector<JsonObject> objects(std::string_view key);
  // Returns the raw value and marks it as read; null if absent.
  [[nodiscard]] const nlohmann::ordered_json& raw(std::string_view key);
  // Marks everything below the key as read (free-form content such as notes).
  void ignore(std::string_view key);
  [[nodiscard]] std::vector<std::string> keys() const;

  void report(std::string_view key, std::string problem, std::string hint = "");

 private:
  friend class JsonFile;
  JsonObject(JsonFile::State& state, const nlohmann::ordered_json* value, std::string pointer);

  // Returns the value of a key and marks it as read; nullptr if absent, which is a problem if
  // required.
  [[nodiscard]] const nlohmann::ordered_json* find(std::string_view key, bool required,
                                                   std::string_view what);
  void report_kind(std::string_view key, std::string_view what,
                   const nlohmann::ordered_json& value);
  [[nodiscard]] JsonObject child(const nlohmann::ordered_json& value, std::string pointer);
  template <class Kind, class Parser>
  Kind quantity(std::string_view key, std::optional<Kind> fallback, Parser parser,
                std::string_view what, std::string_view units);

  JsonFile::State* state_;
  const nlohmann::ordered_json* value_;  // nullptr: the object is absent, or has another kind
  std::string pointer_;
};

// Reads a figure of a data file, {"value": ..., "source": "..."}, at `key`. The source must not be
// empty, so that every figure has a stated origin.
//
//    const double share = sourced(root, "fragmentation").number("value", {.least = 0, .most = 1});
[[nodiscard]] JsonObject sourced(JsonObject& object, std::string_view key);

// Formats a value for messages: compact JSON, cut after 60 characters.
[[nodiscard]] std::string shown(const nlohmann::ordered_json& value);

// Appends a key to a JSON pointer: "/parallelism" and "tensor" give "/parallelism/tensor", with '~'
// and '/' escaped (RFC 6901).
[[nodiscard]] std::string join_pointer(std::string_view pointer, std::string_view key);

}  // namespace trainyard
