// One measured run of training, as public tables describe it: what ran, on what, how long it took.
//
// The description keeps the form of the data sets (docs in README.md of this folder): an object
// with model, hardware, parallel, batch, framework, precision, recompute. row_scenario.hpp turns it
// into a scenario.
//
//   const MeasuredRow row = read_dataset("published.json").front();
//   row.step_time_s;   // 1.42
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace trainyard {

struct MeasuredRow {
  std::string id;
  std::string source;  // the series it belongs to: what stands before the first '-' of the id
  bool complete = true;
  nlohmann::ordered_json description = {};
  double step_time_s = 0.0;                    // of one optimizer step; 0: not measured
  std::optional<double> peak_memory_gib = {};  // allocated, of the fullest rank
  std::string machine = {};  // the file beside the data set that describes it; empty: none
};

// The value at a JSON pointer; nullptr where it is absent or null.
[[nodiscard]] const nlohmann::ordered_json* value_at(const nlohmann::ordered_json& json,
                                                     const std::string& pointer);
// The value there as a whole number, a text or a truth; `otherwise` where there is none of the
// kind.
[[nodiscard]] std::int64_t whole_at(const nlohmann::ordered_json& json, const std::string& pointer,
                                    std::int64_t otherwise);
[[nodiscard]] double number_at(const nlohmann::ordered_json& json, const std::string& pointer,
                               double otherwise);
[[nodiscard]] std::string text_at(const nlohmann::ordered_json& json, const std::string& pointer,
                                  const std::string& otherwise = "");
[[nodiscard]] bool truth_at(const nlohmann::ordered_json& json, const std::string& pointer,
                            bool otherwise = false);

// What rows are grouped and judged by.
enum class Feature : std::uint8_t {
  Source,
  Gpu,
  Parallelism,  // "tp pp dp", "fsdp", "tp cp ep dp": the dimensions above 1
  Precision,
  Scale,  // "2-8", "9-64", "65-512", "513-2048", "2049-"
  Framework,
  Model,  // "dense", "moe"
  Recompute,
  Operation,  // "all_reduce"; "step" for a run of training
  Size,       // of a collective's buffer: "<= 64 KiB", "< 1 MiB", "<= 64 MiB", "> 64 MiB"
  Group,   // a series within a source: one model on one machine; the source where a row names none
  Replica  // what one replica does, on which GPU and with which software: all but how many there
           // are
};
inline constexpr std::size_t kFeatures = 12;
[[nodiscard]] std::string_view to_string(Feature feature);
// Throws InputError that names the option and lists the features.
[[nodiscard]] Feature feature_named(const std::string& option, const std::string& name);
[[nodiscard]] std::string feature_of(const MeasuredRow& row, Feature feature);

}  // namespace trainyard
