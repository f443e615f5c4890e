// Measured training runs as public tables describe them, and the reader of data sets of them.
//
// The description keeps the form of the data sets (README.md of this folder): an object with model,
// hardware, parallel, batch, framework, precision, recompute. row_scenario.hpp converts it to a
// scenario.
//
// A data set has one of two forms, which the reader recognises by their contents:
// - a JSON array of rows in the form of README.md (also an object with the rows under "rows")
// - a CSV with the columns of vTrain's single-node table: gpus, global_batch, micro_batch, hidden,
//   heads, layers, seq, tp, dp, pp, iteration_ms
//
//    for (const MeasuredRow& row : read_dataset("training/published.json")) use(row.step_time_s);
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
  std::string source;  // the series that it belongs to: the part before the first '-' of the id
  bool complete = true;
  nlohmann::ordered_json description = {};
  double step_time_s = 0.0;                    // of one optimizer step; 0: not measured
  std::optional<double> peak_memory_gib = {};  // allocated, of the fullest rank
  std::string machine = {};  // the file next to the data set that describes it; empty: none
};

// The value at a JSON pointer; nullptr if it is absent or null.
[[nodiscard]] const nlohmann::ordered_json* value_at(const nlohmann::ordered_json& json,
                                                     const std::string& pointer);
// The value at a JSON pointer as a whole number, a number, a text or a boolean. The result is
// `otherwise` if there is no value of this type.
[[nodiscard]] std::int64_t whole_at(const nlohmann::ordered_json& json, const std::string& pointer,
                                    std::int64_t otherwise);
[[nodiscard]] double number_at(const nlohmann::ordered_json& json, const std::string& pointer,
                               double otherwise);
[[nodiscard]] std::string text_at(const nlohmann::ordered_json& json, const std::string& pointer,
                                  const std::string& otherwise = "");
[[nodiscard]] bool truth_at(const nlohmann::ordered_json& json, const std::string& pointer,
                            bool otherwise = false);

// The properties by which rows are grouped and scored.
enum class Feature : std::uint8_t {
  Source,
  Gpu,
  Parallelism,  // the dimensions above 1: "tp pp dp", "fsdp", "tp cp ep dp"
  Precision,
  Scale,  // "1-8 GPUs", "9-64 GPUs", "65-512 GPUs", "513-2048 GPUs", "over 2048 GPUs"
  Framework,
  Model,  // "dense", "moe"
  Recompute,
  Operation,  // "all_reduce"; "step" for a training run
  Size,       // of a collective's buffer: "<= 64 KiB", "< 1 MiB", "<= 64 MiB", "> 64 MiB"
  Group,      // a series within a source: one model on one machine; the source if no group is named
  Replica,  // all settings of one replica, its GPU and its software, but not the number of replicas
  Family,   // the model's name up to its first digit: "Llama", "GPT-OSS"
  Release   // the framework with its version
};
inline constexpr std::size_t kFeatures = 14;
[[nodiscard]] std::string_view to_string(Feature feature);
// Throws InputError that names the option and lists the features.
[[nodiscard]] Feature feature_named(const std::string& option, const std::string& name);
[[nodiscard]] std::string feature_of(const MeasuredRow& row, Feature feature);

// Reads a data set. Throws InputError if the form of the file is unknown or a row has no id.
[[nodiscard]] std::vector<MeasuredRow> read_dataset(const std::filesystem::path& file);

// The file that describes the machine of a user's own measurements, next to them: runs.json and
// runs.log have runs.machine.json. It contains a cluster as in scenarios ({"node": "dgx_h100",
// "nodes": 4, "fabric": {...}}, or a whole scenario). For logs of nccl-tests it may contain a
// platform block instead ({"gpu": "h100", "gpus": 8, "nic": 50, "nics": 8, "fabric": "infiniband"},
// sim/nccl/fit/samples.hpp). The first function returns the path where the file is expected, the
// second one the path if the file exists.
[[nodiscard]] std::filesystem::path machine_file_name(const std::filesystem::path& data);
[[nodiscard]] std::optional<std::filesystem::path> machine_file(const std::filesystem::path& data);

// Whether the file is a platform block, which names its GPU and lists no devices. A cluster does
// neither or both. Throws InputError if the file is not JSON.
[[nodiscard]] bool is_platform_block(const std::filesystem::path& machine);

// The cluster object of the file. Throws InputError if the file contains something else, or a
// cluster that cannot be built.
[[nodiscard]] nlohmann::ordered_json read_machine(const std::filesystem::path& machine);

}  // namespace trainyard
