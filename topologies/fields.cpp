#include "topologies/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "sim/base/units.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

using L = CollectiveLatency;
constexpr Field<L> kLatency[] = {
    {"launch", "once per collective", time<&L::launch, Absent::Reported>()},
    {"intra_step", "of a step inside a node", time<&L::intra_step, Absent::Reported>()},
    {"inter_step", "of a step between nodes", time<&L::inter_step, Absent::Reported>()},
};

// Reports a value below 1 B or 1 B/s. Such a value is a typing error and would make steps
// practically endless. Values that do not parse are reported already.
template <class Parser>
void report_zero(JsonObject& object, std::string_view key, std::string_view remedy, Parser parser,
                 const std::string& one) {
  if (!object.has(key) || !object.raw(key).is_string()) return;
  const auto written = parser(object.raw(key).template get<std::string>());
  if (!written || written->value() >= 1.0) return;
  if (written->value() <= 0.0)
    object.report(key, "must be more than zero", std::string(remedy));
  else
    object.report(key, fmt::format("must be at least {}, not {}", one, shown(object.raw(key))),
                  std::string(remedy));
}

}  // namespace

BytesPerSecond positive_rate(JsonObject& object, std::string_view key, std::string_view remedy,
                             std::optional<BytesPerSecond> fallback) {
  const BytesPerSecond rate = object.rate(key, fallback);
  report_zero(object, key, remedy, parse_rate, "1 B/s");
  return rate;
}

Bytes gpu_memory(JsonObject& object, std::string_view key, std::optional<Bytes> fallback) {
  const Bytes bytes = object.bytes(key, fallback);
  report_zero(object, key, "say what a job may have of it, such as \"80 GiB\"", parse_bytes, "1 B");
  return bytes;
}

std::vector<std::uint32_t> read_dims(JsonObject& object, std::string_view key) {
  const Json& value = object.raw(key);
  std::vector<std::uint32_t> dims;
  const auto is_size = [](const Json& size) {
    return size.is_number_integer() && size.get<std::int64_t>() >= 1 &&
           size.get<std::int64_t>() <= kPartsMost;
  };
  constexpr std::size_t kDimsMost = 8;
  const bool sound = value.is_array() && !value.empty() && value.size() <= kDimsMost &&
                     std::all_of(value.begin(), value.end(), is_size);
  if (!sound) {
    object.report(
        key,
        fmt::format("must be a list of 1 to {} whole numbers, not {}", kDimsMost, shown(value)),
        "write the size of each dimension, [4, 4, 2]");
    return dims;
  }
  for (const Json& size : value) dims.push_back(size.get<std::uint32_t>());
  return dims;
}

std::vector<std::uint32_t> read_numbers(JsonObject& object, std::string_view key,
                                        std::string_view what) {
  constexpr std::uint64_t kMost = 1U << 20U;
  const Json& value = object.raw(key);
  std::vector<std::uint32_t> numbers;
  for (const Json& number : value.is_array() ? value : Json::array())
    if (number.is_number_unsigned() && number.get<std::uint64_t>() <= kMost)
      numbers.push_back(number.get<std::uint32_t>());
  if (!value.is_array() || numbers.size() != value.size() || numbers.empty())
    object.report(key, fmt::format("must be a list of the numbers of {}", what), "such as [2, 3]");
  return numbers;
}

CollectiveLatency read_latency(JsonObject object) {
  object.ignore("source");
  return read_fields<L>(object, kLatency, L{});
}

Json to_json(const CollectiveLatency& latency) { return write_fields<L>(kLatency, latency); }

}  // namespace trainyard
