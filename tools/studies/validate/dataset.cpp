#include "tools/studies/validate/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "tools/studies/validate/machine_file.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& pointer,
                         const std::string& problem, const std::string& hint) {
  throw InputError(Problem{file, pointer, problem, hint});
}

// `headline` is what a data set recommends to compare with; else the time as published, or what
// follows from the throughput.
double measured_time(const Json& row) {
  for (const char* place : {"/headline/iter_time_s", "/measured/iter_time_s"}) {
    const double seconds = number_at(row, place, 0.0);
    if (seconds > 0.0) return seconds;
  }
  const double rate = number_at(row, "/headline/tokens_per_s_per_gpu",
                                number_at(row, "/measured/tokens_per_s_per_gpu", 0.0));
  const double tokens =
      number_at(row, "/batch/global_batch", 0.0) * number_at(row, "/batch/seq_len", 0.0);
  const double gpus = number_at(row, "/hardware/num_gpus", 0.0);
  return rate > 0.0 && gpus > 0.0 ? tokens / (rate * gpus) : 0.0;
}

// "bf16 (amp)" is "BF16 (amp)": how tables write types, and what they are told apart by.
void capitalise_type(Json& row) {
  const std::string said = text_at(row, "/precision");
  const std::string type = said.substr(0, said.find(' '));
  for (const char* known : {"BF16", "FP16", "FP32", "FP8", "MXFP8", "NVFP4"}) {
    const bool same = std::ranges::equal(
        type, std::string_view(known), {}, [](unsigned char c) { return std::toupper(c); },
        [](unsigned char c) { return static_cast<int>(c); });
    if (same) row["precision"] = known + said.substr(type.size());
  }
}

MeasuredRow row_of(const std::string& file, std::size_t number, const Json& json) {
  const std::string pointer = fmt::format("/{}", number);
  if (!json.is_object()) refuse(file, pointer, "must be an object", "one row of the data set");
  MeasuredRow row;
  row.id = text_at(json, "/id");
  if (row.id.empty()) refuse(file, pointer + "/id", "is missing", "it must be a text");
  row.source = row.id.substr(0, row.id.find('-'));
  row.complete = truth_at(json, "/complete", true);
  row.step_time_s = measured_time(json);
  const double peak = number_at(json, "/measured/peak_mem_allocated_gib", 0.0);
  if (peak > 0.0) row.peak_memory_gib = peak;
  row.description = json;
  capitalise_type(row.description);
  return row;
}

bool is_vtrain_table(const std::string& text) {
  const std::string heading = text.substr(0, text.find('\n'));
  return heading.starts_with("gpus,") && heading.find("iteration_ms") != std::string::npos;
}

std::vector<MeasuredRow> read_rows(const std::filesystem::path& file) {
  const std::string name = file.string();
  const std::string text = read_file(file);
  if (is_vtrain_table(text)) return read_vtrain_table(name, text);
  const Json document = parse_json(name, text);
  const bool wrapped = document.is_object() && document.contains("rows");
  const Json& rows = wrapped ? document.at("rows") : document;
  if (!rows.is_array()) {
    refuse(name, wrapped ? "/rows" : "", "is no list of measured runs",
           "a JSON array of rows, or vTrain's table as CSV");
  }
  std::vector<MeasuredRow> all;
  for (std::size_t number = 0; number < rows.size(); ++number) {
    all.push_back(row_of(name, number, rows[number]));
  }
  return all;
}

}  // namespace

std::vector<MeasuredRow> read_dataset(const std::filesystem::path& file) {
  std::vector<MeasuredRow> rows = read_rows(file);
  if (const auto machine = machine_file(file))
    for (MeasuredRow& row : rows) row.machine = machine->string();
  return rows;
}

}  // namespace trainyard
