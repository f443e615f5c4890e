// Strict reading of JSON: every field is asked for by name, and what was not asked for is an error.
//
// Problems are collected, not thrown, so that a user sees all of a file's at once; `finish` throws them.
// Comments are accepted; duplicate keys are errors.
//
//   JsonFile file = JsonFile::read("scenario.json");
//   JsonObject root = file.root();
//   JsonObject par = root.object("parallelism");
//   std::int64_t tp = par.integer("tensor", {.fallback = 1, .least = 1});
//   BytesPerSecond nic = root.rate("nic");                 // "50 GB/s"
//   file.finish();                                         // unknown keys and all problems, thrown together
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
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
  std::optional<std::int64_t> fallback;   // nothing: the field is required
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};
struct NumberRule {
  std::optional<double> fallback;
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};

class JsonObject;

// A parsed file and the problems found in it so far.
class JsonFile {
 public:
  // Throws InputError at once for what cannot be parsed: a missing file, a syntax error (line and column),
  // a duplicate key.
  [[nodiscard]] static JsonFile read(const std::filesystem::path& file);
  [[nodiscard]] static JsonFile parse(std::string name, std::string_view text);

  [[nodiscard]] JsonObject root();
  // The document itself, for overrides before reading.
  [[nodiscard]] nlohmann::ordered_json& document();
  [[nodiscard]] const std::string& name() const;

  void report(std::string pointer, std::string problem, std::string hint = "");
  // Adds a problem for every key nobody asked for (with "did you mean"), then throws InputError if there
  // is any problem at all.
  void finish();

  struct State;

 private:
  explicit JsonFile(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// One object of the file. A field of the wrong kind or range is reported and the fallback (or zero)
// returned, so that reading goes on.
class JsonObject {
 public:
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] std::string pointer(std::string_view key = "") const;

  [[nodiscard]] std::int64_t integer(std::string_view key, const IntegerRule& rule = {});
  [[nodiscard]] double number(std::string_view key, const NumberRule& rule = {});
  [[nodiscard]] bool boolean(std::string_view key, std::optional<bool> fallback = {});
  [[nodiscard]] std::string text(std::string_view key, std::optional<std::string> fallback = {});
  // One of a closed set; the problem lists it and names the nearest.
  [[nodiscard]] std::string choice(std::string_view key, const std::vector<std::string>& choices,
                                   std::optional<std::string> fallback = {});
  // A number with its unit: "2 us", "80 GiB", "450 GB/s", "312 TFLOP/s". A bare number is an error that
  // says which units are accepted. Rates in Gb/s (bits) are accepted as networks are sold.
  [[nodiscard]] Seconds time(std::string_view key, std::optional<Seconds> fallback = {});
  [[nodiscard]] Bytes bytes(std::string_view key, std::optional<Bytes> fallback = {});
  [[nodiscard]] BytesPerSecond rate(std::string_view key, std::optional<BytesPerSecond> fallback = {});
  [[nodiscard]] FlopsPerSecond flops_rate(std::string_view key, std::optional<FlopsPerSecond> fallback = {});
  [[nodiscard]] std::vector<std::string> texts(std::string_view key, std::optional<std::vector<std::string>> fallback = {});

  // A nested object; when absent, an empty one is read (its required fields are then reported as missing).
  [[nodiscard]] JsonObject object(std::string_view key);
  [[nodiscard]] std::vector<JsonObject> objects(std::string_view key);   // an array of objects; absent: none
  // The raw value, marked as read; null when absent.
  [[nodiscard]] const nlohmann::ordered_json& raw(std::string_view key);
  // Marks everything below the key as read (free-form content such as notes).
  void ignore(std::string_view key);
  [[nodiscard]] std::vector<std::string> keys() const;

  void report(std::string_view key, std::string problem, std::string hint = "");

 private:
  friend class JsonFile;
  JsonObject(std::shared_ptr<JsonFile::State> state, std::string pointer);
  std::shared_ptr<JsonFile::State> state_;
  std::string pointer_;
};

// The candidate nearest to the word, or "" when none is near (edit distance at most a third of its length).
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// "450 GB/s" -> 450e9. nullopt when it is not a number followed by a unit of that kind.
[[nodiscard]] std::optional<Seconds> parse_time(std::string_view text);
[[nodiscard]] std::optional<Bytes> parse_bytes(std::string_view text);
[[nodiscard]] std::optional<BytesPerSecond> parse_rate(std::string_view text);
[[nodiscard]] std::optional<FlopsPerSecond> parse_flops_rate(std::string_view text);

}  // namespace trainyard
