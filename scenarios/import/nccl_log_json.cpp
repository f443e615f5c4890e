// The JSON that nccl-tests writes with -J (parse_log_json of log_parts.hpp).
//
// Its "devices" lists one device for each process, and each process has nthreads * ngpus ranks.
#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/import/nccl_log_parts.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_parse.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// A file that was cut: closed after the last whole element of the list in the outermost object.
std::string closed(std::string_view text) {
  std::string open;
  std::size_t whole = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (quoted) {
      if (letter == '\\') ++i;
      if (letter == '"') quoted = false;
    } else if (letter == '"') {
      quoted = true;
    } else if (letter == '{' || letter == '[') {
      open += letter;
    } else if ((letter == '}' || letter == ']') && !open.empty()) {
      open.pop_back();
      if (open == "{[" && letter == '}') whole = i + 1;
    }
  }
  return whole == 0 ? std::string() : std::string(text.substr(0, whole)) + "]}";
}

double number_at(const Json& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Json part(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() ? *found : Json();
}

void add_time(LogRun& run, const Json& result, const char* key, bool in_place) {
  const Json cell = part(result, key);
  if (!cell.is_object()) return;  // null: not measured
  const double time = number_at(cell, "time", number_at(cell, "cpu_time", std::nan("")));
  const double bytes = number_at(result, "size", 0.0);
  if (bytes == 0.0) return;
  if (!(bytes >= 1.0 && bytes <= kLogBytesMost) || !is_measured_time(time)) {
    ++run.broken;
    return;
  }
  const double algbw = number_at(cell, "alg_bw", 0.0);
  const double busbw = number_at(cell, "bus_bw", 0.0);
  if (!is_measured_rate(algbw) || !is_measured_rate(busbw)) {
    ++run.broken;
    return;
  }
  if (number_at(cell, "nwrong", 0.0) > 0.0) {
    ++run.wrong;
    return;
  }
  run.rows.push_back({.bytes = static_cast<std::int64_t>(bytes),
                      .dtype = text_at(result, "type"),
                      .time_us = time,
                      .algbw_GBps = algbw,
                      .busbw_GBps = busbw,
                      .in_place = in_place});
}

void read_config(LogRun& run, const Json& config) {
  if (!config.is_object()) return;
  run.cuda_graph = number_at(config, "graph", 0.0) > 0.0;
  const Json devices = part(config, "devices");
  for (const Json& device : devices) {
    if (!device.is_object()) continue;
    run.hosts.insert(text_at(device, "hostname"));
    if (run.gpu.empty()) run.gpu = text_at(device, "device_info");
  }
  const double ranks = static_cast<double>(devices.size()) * number_at(config, "nthreads", 1.0) *
                       number_at(config, "ngpus", 1.0);
  if (ranks > 0.0 && ranks < 1e7) run.ranks = static_cast<std::uint32_t>(ranks);
}

}  // namespace

std::vector<LogRun> parse_log_json(const std::string& file, std::string_view text) {
  const std::optional<Json> whole = try_parse_json(text);
  const bool cut = !whole;
  const Json document = cut ? try_parse_json(closed(text)).value_or(Json()) : *whole;
  if (!document.is_object() || !part(document, "results").is_array()) {
    throw InputError(Problem{.file = file,
                             .pointer = {},
                             .problem = "is no JSON of nccl-tests: it has no list \"results\"",
                             .hint = "give what all_reduce_perf -J FILE wrote"});
  }
  LogRun run{.concluded = !cut && document.contains("out_of_bounds")};
  const Json arguments = part(document, "args");
  if (arguments.is_array() && !arguments.empty() && arguments.front().is_string())
    run.test = test_named_in(arguments.front().get<std::string>());
  run.nccl_version =
      nccl_version_text(static_cast<std::int64_t>(number_at(document, "nccl_version", 0.0)));
  read_config(run, part(document, "config"));
  for (const Json& result : part(document, "results")) {
    if (!result.is_object()) continue;
    add_time(run, result, "out_of_place", false);
    add_time(run, result, "in_place", true);
  }
  return {std::move(run)};
}

}  // namespace trainyard
