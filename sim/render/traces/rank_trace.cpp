#include "sim/render/traces/rank_trace.hpp"

#include "sim/base/check.hpp"
#include "sim/render/traces/class_trace.hpp"
#include "sim/render/traces/shared_text.hpp"

namespace trainyard {
namespace {

using What = RankValue::What;

constexpr std::size_t kPiece = std::size_t{1} << 20;

class ClassJson {
 public:
  ClassJson(const RunView& view, const ShownClass& shown, TraceEvents& events, OutputStream& out)
      : view_(view), shown_(shown), trace_(view, shown.rank_class), events_(events), out_(out) {
    for (const RankId rank : shown.ranks) values_.push_back(rank_values(view, rank));
    for (const std::string& category : view.workload.categories)
      categories_.push_back(json_text(category));
  }

  void name_processes() {
    for (const RankId rank : shown_.ranks) {
      events_.process(rank, process_name(view_, rank), rank);
      for (const ShownThread& thread : trace_.threads())
        events_.thread(rank, thread.number, thread.name, thread.position);
    }
  }

  void write_slices() {
    trace_.for_each_slice([this](const ShownSlice& slice) {
      write_slice(slice);
      if (slice.message) add_message(slice);
    });
    write_piece();
  }

  void write_memory() {
    trace_.for_each_memory([this](const ShownMemory& point) {
      text_.append(",\n{\"ph\":\"C\",\"pid\":");
      text_.append_value(index_of({.what = What::Rank}));
      text_.print(R"(,"ts":{}.{:03},"name":"memory bytes","args":{{)", point.at_ns / kNsPerUs,
                  point.at_ns % kNsPerUs);
      for (const std::size_t category : point.changed)
        text_.print("{}:{},", categories_[category], point.bytes[category]);
      text_.print("\"total\":{}}}}}", point.total);
      ++piece_.counters;
      write_full_piece();
    });
    write_piece();
  }

  [[nodiscard]] std::vector<MessageEnd> take_messages() { return std::move(messages_); }

 private:
  static constexpr std::int64_t kNsPerUs = 1000;

  void write_slice(const ShownSlice& slice) {
    const std::int64_t duration_ns = slice.end_ns - slice.start_ns;
    TY_CHECK(duration_ns >= 0 && slice.start_ns >= 0, slice.start_ns, slice.end_ns);
    text_.append(",\n{\"ph\":\"X\",\"pid\":");
    text_.append_value(index_of({.what = What::Rank}));
    text_.print(R"(,"tid":{},"ts":{}.{:03},"dur":{}.{:03},"cat":"{}","name":{},"args":{{)",
                slice.thread, slice.start_ns / kNsPerUs, slice.start_ns % kNsPerUs,
                duration_ns / kNsPerUs, duration_ns % kNsPerUs, slice.category,
                json_text(slice.name));
    bool first = true;
    if (slice.correlation != 0) {
      write_argument({"device", RankValue{What::Device}}, first);
      text_.print(R"(,"context":1,"stream":{},"correlation":{})", slice.thread, slice.correlation);
    }
    for (const ShownArgument& argument : slice.arguments) write_argument(argument, first);
    text_.append("}}");
    ++piece_.slices;
    piece_.slice_ns += duration_ns;
    write_full_piece();
  }

  void write_argument(const ShownArgument& argument, bool& first) {
    text_.print("{}\"{}\":", first ? "" : ",", argument.name);
    first = false;
    if (const auto* number = std::get_if<std::int64_t>(&argument.value)) {
      text_.print("{}", *number);
    } else if (const auto* text = std::get_if<std::string_view>(&argument.value)) {
      text_.append(json_text(*text));
    } else {
      write_value(std::get<RankValue>(argument.value));
    }
  }

  void write_value(const RankValue& value) {
    const bool quoted = value.what == What::GroupName || value.what == What::GroupRanks;
    if (quoted) text_.append("\"");
    text_.append_value(index_of(value));
    if (quoted) text_.append("\"");
  }

  void write_full_piece() {
    if (text_.size() >= kPiece) write_piece();
  }

  void write_piece() {
    for (const std::vector<std::string>& values : values_) text_.write(values, out_);
    events_.add(piece_, shown_.ranks.size());
    text_.clear();
    piece_ = {};
  }

  void add_message(const ShownSlice& slice) {
    for (const RankId rank : shown_.ranks) {
      messages_.push_back({.group = view_.workload.ranks[rank].slots.at(slice.message->slot).group,
                           .call = slice.message->call,
                           .receives = slice.message->receives,
                           .process = rank,
                           .thread = slice.thread,
                           .start_ns = slice.start_ns,
                           .end_ns = slice.end_ns});
    }
  }

  const RunView& view_;
  const ShownClass& shown_;
  ClassTrace trace_;
  TraceEvents& events_;
  OutputStream& out_;
  std::vector<std::vector<std::string>> values_;  // of each rank
  std::vector<std::string> categories_;           // as JSON text
  std::vector<MessageEnd> messages_;
  SharedText text_;
  TraceCounts piece_;  // what the text holds
};

}  // namespace

std::vector<MessageEnd> write_class_trace(const RunView& view, const ShownClass& shown,
                                          bool memory_counters, TraceEvents& events,
                                          OutputStream& out) {
  ClassJson json(view, shown, events, out);
  json.name_processes();
  json.write_slices();
  if (memory_counters) json.write_memory();
  return json.take_messages();
}

}  // namespace trainyard
