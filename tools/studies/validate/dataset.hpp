// Measured runs of training, as public tables describe them, and the reading of data sets of them.
//
// The description keeps the form of the data sets (docs in README.md of this folder): an object
// with model, hardware, parallel, batch, framework, precision, recompute. row_scenario.hpp turns it
// into a scenario.
//
// A data set has one of two forms, told apart by their contents:
//   a JSON array of rows in the form of README.md here (also one with the rows under "rows")
//   a CSV with the columns of vTrain's single-node table: gpus, global_batch, micro_batch, hidden,
//   heads, layers, seq, tp, dp, pp, iteration_ms
//
//   for (const MeasuredRow& row : read_dataset("training/published.json")) use(row.step_time_s);
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

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

// The properties by which rows are grouped and judged.
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

// Throws InputError where the file is of no known form or a row lacks its id.
[[nodiscard]] std::vector<MeasuredRow> read_dataset(const std::filesystem::path& file);

// The file that describes the machine of a user's own measurements, beside them: runs.json and
// runs.log have runs.machine.json. It holds a cluster as scenarios do ({"node": "dgx_h100",
// "nodes": 4, "fabric": {...}}, or a whole scenario); for logs of nccl-tests it may hold a platform
// block instead ({"gpu": "h100", "gpus": 8, "nic": 50, "nics": 8, "fabric": "infiniband"},
// sim/nccl/fit/samples.hpp). The first function tells where it would be, the second where it is, if
// it is there.
[[nodiscard]] std::filesystem::path machine_file_name(const std::filesystem::path& data);
[[nodiscard]] std::optional<std::filesystem::path> machine_file(const std::filesystem::path& data);

// A platform block names its GPU and lists no devices; a cluster does neither or both. Throws
// InputError where the file is no JSON.
[[nodiscard]] bool is_platform_block(const std::filesystem::path& machine);

// The cluster object of the file. Throws InputError where it holds another thing, or one that
// cannot be built.
[[nodiscard]] nlohmann::ordered_json read_machine(const std::filesystem::path& machine);

}  // namespace trainyard
