// Strict reading of JSON: every field is asked for by name, and what was not asked for is an error.
//
// Problems are collected, not thrown, so that a user sees all of a file's at once; `finish` throws
// them. Comments are accepted; duplicate keys are errors.
//
//   JsonFile file = JsonFile::read("scenario.json");
//   JsonObject root = file.root();
//   JsonObject par = root.object("parallelism");
//   std::int64_t tp = par.integer("tensor", {.fallback = 1, .least = 1});
//   BytesPerSecond nic = root.rate("nic");                 // "50 GB/s"
//   file.finish();   // throws unknown keys and all problems together
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
#include "sim/base/nearest.hpp"
#include "sim/base/units.hpp"

namespace trainyard {

struct IntegerRule {
  std::optional<std::int64_t> fallback = {};  // nothing: the field is required
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::string_view remedy = {};  // said when the number is out of range
};
struct NumberRule {
  std::optional<double> fallback = {};
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};

class JsonObject;

// A parsed file and the problems found in it so far. The JsonObjects it gives out refer to it and
// must not outlive it (moving it is fine).
class JsonFile {
 public:
  // Throws InputError at once for what cannot be parsed: a missing file, a syntax error (line and
  // column), a duplicate key.
  [[nodiscard]] static JsonFile read(const std::filesystem::path& file);
  [[nodiscard]] static JsonFile parse(std::string name, std::string_view text);

  JsonFile(JsonFile&&) noexcept;
  JsonFile& operator=(JsonFile&&) noexcept;
  ~JsonFile();

  [[nodiscard]] JsonObject root();
  // The document itself, for overrides before reading.
  [[nodiscard]] nlohmann::ordered_json& document();
  [[nodiscard]] const std::string& name() const;

  void report(std::string pointer, std::string problem, std::string hint = "");
  // Problems found elsewhere (an included file), to be thrown with this file's.
  void report(const std::vector<Problem>& problems);
  [[nodiscard]] bool has_problems() const;
  // Remedies for unknown keys that are words of another program ("tp" -> "here it is called
  // tensor"); they go before "did you mean". Capitals, '-' for '_' and leading dashes do not count.
  void explain_unknown(std::map<std::string, std::string> remedies);
  // False when a problem has been reported at the pointer, below it, or above it: what was read
  // there is a fallback and no ground for further checks.
  [[nodiscard]] bool is_sound(std::string_view pointer) const;
  // Adds a problem for every key nobody asked for so far (with "did you mean"), each once.
  void report_unknown_keys();
  // Reports the unknown keys, then throws InputError if there is any problem at all.
  void finish();

  struct State;

 private:
  explicit JsonFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// One object of the file. A field of the wrong kind or range is reported and the fallback (or zero)
// returned, so that reading goes on.
class JsonObject {
 public:
  [[nodiscard]] bool has(std::string_view key) const;
  // The JSON pointer of a key, or of the object itself.
  [[nodiscard]] std::string pointer(std::string_view key = "") const;

  [[nodiscard]] std::int64_t integer(std::string_view key, const IntegerRule& rule = {});
  [[nodiscard]] double number(std::string_view key, const NumberRule& rule = {});
  [[nodiscard]] bool boolean(std::string_view key, std::optional<bool> fallback = {});
  [[nodiscard]] std::string text(std::string_view key, std::optional<std::string> fallback = {});
  // One of a closed set; the problem lists it and names the nearest.
  [[nodiscard]] std::string choice(std::string_view key, const std::vector<std::string>& choices,
                                   std::optional<std::string> fallback = {});
  // Words of a closed set, in a list. `unknown` is said of a word outside of it, which goes into
  // its braces.
  [[nodiscard]] std::vector<std::string> choices(std::string_view key,
                                                 const std::vector<std::string>& known,
                                                 std::string_view unknown,
                                                 std::vector<std::string> fallback);
  // A number with its unit: "2 us", "80 GiB", "450 GB/s", "312 TFLOP/s". A bare number is an error
  // that says which units are accepted. Rates in Gb/s (bits) are accepted as networks are sold.
  // Never negative.
  [[nodiscard]] Seconds time(std::string_view key, std::optional<Seconds> fallback = {});
  [[nodiscard]] Bytes bytes(std::string_view key, std::optional<Bytes> fallback = {});
  [[nodiscard]] BytesPerSecond rate(std::string_view key,
                                    std::optional<BytesPerSecond> fallback = {});
  [[nodiscard]] FlopsPerSecond flops_rate(std::string_view key,
                                          std::optional<FlopsPerSecond> fallback = {});
  [[nodiscard]] std::vector<std::string> texts(
      std::string_view key, std::optional<std::vector<std::string>> fallback = {});

  // A nested object; when absent, an empty one is read (its required fields are then reported as
  // missing).
  [[nodiscard]] JsonObject object(std::string_view key);
  // An array of objects; absent: none.
  [[nodiscard]] std::vector<JsonObject> objects(std::string_view key);
  // The raw value, marked as read; null when absent.
  [[nodiscard]] const nlohmann::ordered_json& raw(std::string_view key);
  // Marks everything below the key as read (free-form content such as notes).
  void ignore(std::string_view key);
  [[nodiscard]] std::vector<std::string> keys() const;

  void report(std::string_view key, std::string problem, std::string hint = "");

 private:
  friend class JsonFile;
  JsonObject(JsonFile::State& state, const nlohmann::ordered_json* value, std::string pointer);

  // The value of a key, marked as read; nullptr when absent, which is reported if it is required.
  [[nodiscard]] const nlohmann::ordered_json* find(std::string_view key, bool required,
                                                   std::string_view what);
  void report_kind(std::string_view key, std::string_view what,
                   const nlohmann::ordered_json& value);
  [[nodiscard]] JsonObject child(const nlohmann::ordered_json& value, std::string pointer);
  template <class Kind, class Parser>
  Kind quantity(std::string_view key, std::optional<Kind> fallback, Parser parser,
                std::string_view what, std::string_view units);

  JsonFile::State* state_;
  const nlohmann::ordered_json* value_;  // nullptr: the object is absent, or is no object
  std::string pointer_;
};

// A figure of a data file, {"value": ..., "source": "..."}, at `key`. Its source must say
// something, as whoever reads the figure asks where it is from.
//
//   const double share = sourced(root, "fragmentation").number("value", {.least = 0, .most = 1});
[[nodiscard]] JsonObject sourced(JsonObject& object, std::string_view key);

// A value as messages show it: compact JSON, cut after 60 characters.
[[nodiscard]] std::string shown(const nlohmann::ordered_json& value);

// "/parallelism" and "tensor" -> "/parallelism/tensor", with '~' and '/' escaped (RFC 6901).
[[nodiscard]] std::string join_pointer(std::string_view pointer, std::string_view key);

}  // namespace trainyard
