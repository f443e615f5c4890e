// The events of a Chrome trace (JSON Object Format), written one after another straight to a file.
//
// Times are whole nanoseconds and printed as microseconds with three decimals, so that the end of a
// span and the start of the next are equal digit by digit: viewers drop spans of one thread that
// overlap by even a rounding error. Names and args come as JSON text, made once and printed often.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/render/output_stream.hpp"
#include "sim/render/traces/trace_options.hpp"

namespace trainyard {

[[nodiscard]] std::int64_t trace_ns(double seconds);
// The text quoted and escaped.
[[nodiscard]] std::string json_text(std::string_view text);

struct TraceFlowEnd {
  std::uint64_t process = 0;
  std::uint64_t thread = 0;
  std::int64_t at_ns = 0;
};

class TraceEvents {
 public:
  explicit TraceEvents(OutputStream& out) : out_(out) {}

  void process(std::uint64_t process, const std::string& name, std::uint64_t position);
  void thread(std::uint64_t process, std::uint64_t thread, const std::string& name,
              std::uint64_t position);
  // An arrow. REQUIRES: both ends lie within slices, and the end is not before the start.
  void flow(std::string_view category, std::string_view name_json, const TraceFlowEnd& from,
            const TraceFlowEnd& to);
  // New values of some series of a counter: {"weights":12}.
  void counter(std::uint64_t process, std::string_view name_json, std::int64_t at_ns,
               std::string_view series_json);
  // What was written beside, `times` times.
  void add(const TraceCounts& counts, std::uint64_t times);

  [[nodiscard]] const TraceCounts& counts() const { return counts_; }

 private:
  [[nodiscard]] std::string_view separator();

  OutputStream& out_;
  TraceCounts counts_;
};

}  // namespace trainyard
