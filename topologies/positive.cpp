#include "topologies/positive.hpp"

#include <fmt/format.h>

#include <string>

#include "sim/base/quantity.hpp"

namespace trainyard {

namespace {

// Values that do not parse are reported already. Less than 1 B or 1 B/s is a typing error, and
// steps would take as good as for ever.
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

}  // namespace trainyard
