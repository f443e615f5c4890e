#include "scenarios/import/kineto.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <utility>

#include "scenarios/import/trace_builder.hpp"
#include "sim/base/error.hpp"
#include "sim/base/input_stream.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/letters.hpp"

namespace trainyard {

namespace {

constexpr std::string_view kStep = "ProfilerStep#";
constexpr std::string_view kNoTime = "is no number of microseconds";

[[noreturn]] void refuse_trace(const std::string& file, const std::string& pointer,
                               const std::string& problem) {
  throw InputError(Problem{file, pointer, problem,
                           "give a trace that torch.profiler exported (export_chrome_trace)"});
}

// Keys of an event and of its arguments that are read. All others are skipped.
enum class EventField : std::uint8_t {
  None,
  Phase,
  Category,
  Name,
  Process,
  Thread,
  Start,
  Duration,
  FlowId,
  ExternalId,
  Correlation,
  Stream,
  Sequence,
  Bytes,
  Dims,
  Types,
  Scalars,
  Simulated,
  CollectiveName,
  InElements,
  OutElements,
  GroupSize,
  ElementKind,
  GroupName,
  GroupRanks
};
using FieldNames = std::pair<std::string_view, EventField>;

constexpr std::array<FieldNames, 8> kEventFields{{{"ph", EventField::Phase},
                                                  {"cat", EventField::Category},
                                                  {"name", EventField::Name},
                                                  {"pid", EventField::Process},
                                                  {"tid", EventField::Thread},
                                                  {"ts", EventField::Start},
                                                  {"dur", EventField::Duration},
                                                  {"id", EventField::FlowId}}};
// Several releases spell some of them differently.
constexpr std::array<FieldNames, 19> kArgumentFields{
    {{"External id", EventField::ExternalId},
     {"external id", EventField::ExternalId},
     {"correlation", EventField::Correlation},
     {"stream", EventField::Stream},
     {"Sequence number", EventField::Sequence},
     {"bytes", EventField::Bytes},
     {"Bytes", EventField::Bytes},
     {"Input Dims", EventField::Dims},
     {"Input dims", EventField::Dims},
     {"Input type", EventField::Types},
     {"Concrete Inputs", EventField::Scalars},
     {"kernel", EventField::Simulated},
     {"Collective name", EventField::CollectiveName},
     {"In msg nelems", EventField::InElements},
     {"Out msg nelems", EventField::OutElements},
     {"Group size", EventField::GroupSize},
     {"dtype", EventField::ElementKind},
     {"Process Group Name", EventField::GroupName},
     {"Process Group Ranks", EventField::GroupRanks}}};

template <std::size_t count>
EventField field_named(const std::array<FieldNames, count>& fields, std::string_view key) {
  const auto found = std::ranges::find(fields, key, &FieldNames::first);
  return found == fields.end() ? EventField::None : found->second;
}

// Microseconds as nanoseconds, from the digits in the file: a double does not hold the microseconds
// since 1970 with their fraction. False if the number is none, or too large.
bool nanoseconds_of(std::string_view digits, std::int64_t& nanoseconds) {
  constexpr double most_us = 9e15;
  double rough = 0.0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), rough);
  if (read.ec != std::errc() || !(std::abs(rough) < most_us)) return false;
  if (digits.find_first_of("eE") != std::string_view::npos || digits.starts_with('-')) {
    nanoseconds = std::llround(rough * 1e3);
    return true;
  }
  const std::size_t point = std::min(digits.find('.'), digits.size());
  std::int64_t whole = 0;
  std::from_chars(digits.data(), digits.data() + point, whole);
  double fraction = 0.0;
  if (point < digits.size())
    std::from_chars(digits.data() + point, digits.data() + digits.size(), fraction);
  nanoseconds = whole * 1000 + std::llround(fraction * 1e3);
  return true;
}

// One event. The texts keep their memory from event to event.
struct Event {
  std::string phase, category, name, simulated;
  std::string dims, types, scalars;
  std::uint64_t process = 0, thread = 0;
  std::int64_t start_ns = 0, duration_ns = 0;
  bool has_start = false, has_duration = false;
  std::int64_t flow = 0, external_id = 0, correlation = 0, stream = 0, sequence = -1, bytes = 0;
  std::string collective, element, group, members;
  std::int64_t in_elements = 0, out_elements = 0, ranks = 0;

  void clear() {
    for (std::string* text : {&phase, &category, &name, &simulated, &dims, &types, &scalars,
                              &collective, &element, &group, &members})
      text->clear();
    process = thread = 0;
    start_ns = duration_ns = 0;
    has_start = has_duration = false;
    flow = external_id = correlation = stream = bytes = 0;
    sequence = -1;
    in_elements = out_elements = ranks = 0;
  }
};

// The members in "[0, 1, 8]". Long lists are cut with "..." by the profiler and give none.
std::vector<std::uint32_t> members_of(const std::string& text) {
  std::vector<std::uint32_t> members;
  if (text.find("...") != std::string::npos) return members;
  const auto list = try_parse_json(text).value_or(nullptr);
  if (!list.is_array()) return members;
  for (const auto& member : list) {
    if (!member.is_number_unsigned() || member.get<std::uint64_t>() >= kAbsent) return {};
    members.push_back(member.get<std::uint32_t>());
  }
  return members;
}

// Takes the events of a file into a TraceBuilder.
class EventReader {
 public:
  explicit EventReader(std::string file) : file_(std::move(file)) {}

  void take(const Event& event, std::size_t index) {
    // A flow from a launch to its kernel, whose id is the kernel's correlation. It starts at the
    // launch.
    if (event.category == "ac2g") {
      if (event.phase == "s" && event.has_start)
        build_.launch(event.flow, lane_of(event), event.start_ns);
      return;
    }
    if (event.phase != "X") return;  // only complete events have a duration
    if (event.category == "kernel" || event.category == "gpu_memcpy" ||
        event.category == "gpu_memset" || event.category == "wait") {
      take_device_event(event, index);
    } else if (event.category == "cpu_op" || event.category == "user_annotation") {
      take_host_event(event, index);
    } else if (event.category == "cuda_runtime" || event.category == "cuda_driver") {
      if (event.has_start) build_.launch(event.correlation, lane_of(event), event.start_ns);
    }
  }

  [[nodiscard]] GpuTrace& trace() { return build_.trace(); }
  [[nodiscard]] GpuTrace finish() {
    if (kernels_ == 0) refuse_trace(file_, "/traceEvents", "holds no event of category \"kernel\"");
    if (simulated_ranks_.size() > 1) {
      throw InputError(Problem{file_, "/traceEvents",
                               fmt::format("shows {} ranks", simulated_ranks_.size()),
                               "write one: trainyard run SCENARIO --trace FILE --trace-ranks "
                               "RANK"});
    }
    GpuTrace trace = build_.finish();
    trace.file = file_;
    trace.simulated = !simulated_ranks_.empty();
    return trace;
  }

 private:
  // Threads of different processes differ. Ids of processes have less than 32 bits.
  static std::uint64_t lane_of(const Event& event) { return (event.process << 32U) ^ event.thread; }

  void require_time(const Event& event, std::size_t index) const {
    const auto pointer = [&](const char* key) {
      return fmt::format("/traceEvents/{}/{}", index, key);
    };
    if (!event.has_start) refuse_trace(file_, pointer("ts"), std::string(kNoTime));
    if (!event.has_duration) refuse_trace(file_, pointer("dur"), std::string(kNoTime));
    if (event.duration_ns < 0) {
      refuse_trace(file_, pointer("dur"),
                   fmt::format("is {} us, below 0", static_cast<double>(event.duration_ns) / 1e3));
    }
  }

  std::uint32_t call_of(const Event& event) {
    const auto op = collective_in_name(event.collective);
    if (!op) return kAbsent;
    const ElementType element = element_type(event.element);
    const std::int64_t elements = call_elements(*op, event.in_elements, event.out_elements);
    // The bytes of so many elements still fit 64 bits.
    constexpr std::int64_t most_elements = std::int64_t{1} << 50U;
    TracedCall call{.name = event.collective,
                    .op = *op,
                    .in_elements = event.in_elements,
                    .out_elements = event.out_elements,
                    .dtype = std::string(element.nccl_name),
                    .group = event.group + " " + event.members,
                    .members = members_of(event.members)};
    if (elements > 0 && elements < most_elements) call.bytes = elements * element.bytes;
    if (event.ranks > 0 && event.ranks < kAbsent)
      call.ranks = static_cast<std::uint32_t>(event.ranks);
    return build_.call(std::move(call));
  }

  void take_device_event(const Event& event, std::size_t index) {
    require_time(event, index);
    if (event.category == "wait") {  // Trainyard's own traces draw waiting as a slice before it
      waits_[lane_of(event)] = event.start_ns;
      return;
    }
    ++kernels_;
    TracedKernel kernel{.name = build_.name(event.name),
                        .kind = OperationKind::Copy,
                        .stream = static_cast<std::uint32_t>(event.stream),
                        .start_ns = event.start_ns,
                        .duration_ns = event.duration_ns};
    if (event.category == "kernel") {
      kernel.kind = event.simulated.empty() ? kind_of_kernel(event.name)
                                            : kind_of_simulated_kernel(event.simulated);
      if (!event.collective.empty()) kernel.call = call_of(event);
    } else {
      kernel.bytes = event.bytes;
    }
    if (!event.simulated.empty()) simulated_ranks_.insert(event.process);
    // A real NCCL kernel waits for the other ranks while it runs, so waiting and kernel become one.
    if (const auto wait = waits_.find(lane_of(event)); wait != waits_.end()) {
      kernel.duration_ns += kernel.start_ns - wait->second;
      kernel.start_ns = wait->second;
      waits_.erase(wait);
    }
    build_.add(KernelEvent{
        .kernel = kernel, .external_id = event.external_id, .correlation = event.correlation});
  }

  void take_host_event(const Event& event, std::size_t index) {
    // Only the annotations of steps and of the optimizer are used. The latter tells which
    // elementwise kernels are the optimizer's. Kernels belong to it by the time of their launch,
    // not by an id.
    const bool operation = event.category == "cpu_op";
    const bool step = !operation && event.name.starts_with(kStep);
    if (!operation && !step && !event.name.starts_with("Optimizer.step")) return;
    require_time(event, index);
    const std::int64_t end_ns = event.start_ns + event.duration_ns;
    if (step) {
      build_.step({event.start_ns, end_ns});
      return;
    }
    OperationEvent added{.name = build_.name(event.name),
                         .shape = build_.shape(event.dims, event.types, event.scalars),
                         .lane = lane_of(event),
                         .start_ns = event.start_ns,
                         .end_ns = end_ns,
                         .sequence = event.sequence,
                         .external_id = operation ? event.external_id : 0};
    if (!event.collective.empty()) added.call = call_of(event);
    build_.add(added);
  }

  std::string file_;
  TraceBuilder build_;
  std::size_t kernels_ = 0;
  std::set<std::uint64_t> simulated_ranks_;  // processes of a trace that Trainyard wrote
  std::unordered_map<std::uint64_t, std::int64_t> waits_;  // start of waiting, by lane
};

// The parser's callbacks, which fill one event at a time; at its end, EventReader takes from it
// what is used. `where_` says in which part of the file the parser is; values of parts that are not
// read are skipped. Depths count open objects and lists: in {"traceEvents": [{"args": {}}]} the
// list is at depth 2, an event at 3 (event_depth_) and its args at 4. In a file that is a list,
// they are one less.
class Handler final : public nlohmann::json_sax<nlohmann::ordered_json> {
 public:
  explicit Handler(const std::string& file) : file_(file), reader_(file) {}

  bool null() override { return other("null"); }
  bool boolean(bool value) override { return other(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return integer(value); }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto most = static_cast<number_unsigned_t>(INT64_MAX);
    return integer(static_cast<std::int64_t>(std::min(value, most)));
  }
  bool number_float(number_float_t value, const string_t& digits) override {
    if (depth_ == 1 && root_is_list_) step_times_.push_back(value);
    if (captures()) return capture(digits);
    if (depth_ == event_depth_ && !in_arguments_) set_time(digits);
    return true;
  }
  bool string(string_t& text) override {
    if (captures()) return capture(nlohmann::ordered_json(text).dump());
    if (in_event()) {
      set_text(text);
    } else if (where_ == Where::Device && key_ == "name" && reader_.trace().gpu.empty()) {
      reader_.trace().gpu = text;
    } else if (depth_ == 1) {
      set_file_text(text);
    }
    return true;
  }
  bool binary(binary_t& /*value*/) override { return true; }

  bool start_object(std::size_t /*size*/) override {
    if (captures()) return open("{");
    ++depth_;
    if (depth_ == event_depth_ && where_ == Where::Events) {
      event_.clear();
      field_ = EventField::None;
    } else if (depth_ == event_depth_ + 1 && where_ == Where::Events && key_ == "args") {
      in_arguments_ = true;
    } else if (depth_ == 2 && key_ == "distributedInfo") {
      where_ = Where::Distributed;
    }
    return true;
  }
  bool end_object() override {
    if (captures()) return close("}");
    if (where_ == Where::Events && depth_ == event_depth_) reader_.take(event_, count_++);
    if (depth_ == event_depth_ + 1) in_arguments_ = false;
    --depth_;
    if (depth_ == 1 && where_ == Where::Distributed) where_ = Where::File;
    return true;
  }
  bool start_array(std::size_t /*size*/) override {
    if (captures() || (in_arguments_ && depth_ == event_depth_ + 1 && is_list(field_)))
      return open("[");
    ++depth_;
    if (depth_ == 1) {
      root_is_list_ = true;
      begin_events();
    } else if (depth_ == 2 && key_ == "traceEvents") {
      begin_events();
    } else if (depth_ == 2 && key_ == "deviceProperties") {
      where_ = Where::Device;
    }
    return true;
  }
  bool end_array() override {
    if (captures()) return close("]");
    --depth_;
    if (depth_ == 1) where_ = Where::File;
    return true;
  }
  bool key(string_t& text) override {
    if (captures()) return capture(nlohmann::ordered_json(text).dump(), ":");
    key_ = text;
    field_ = EventField::None;
    if (in_arguments_ && depth_ == event_depth_ + 1)
      field_ = field_named(kArgumentFields, text);
    else if (where_ == Where::Events && depth_ == event_depth_)
      field_ = field_named(kEventFields, text);
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::ordered_json::exception& error) override {
    std::string text = error.what();  // "[json.exception.parse_error.101] parse error at ..."
    if (const std::size_t bracket = text.find("] "); bracket != std::string::npos)
      text.erase(0, bracket + 2);
    constexpr std::size_t most = 160;
    if (text.size() > most) text = text.substr(0, most) + " ...";
    throw InputError(Problem{file_, "", text,
                             "the trace is damaged or was not written to its end: export or copy "
                             "it again"});
  }

  [[nodiscard]] KinetoFile finish() {
    // A list of numbers holds step times. A list of events is a trace, too: the Chrome format
    // allows it.
    const bool numbers = root_is_list_ && count_ == 0 && !other_entries_;
    if (numbers && step_times_.empty()) refuse_trace(file_, "", "is an empty list");
    if (numbers) return {.trace = {}, .step_times_s = std::move(step_times_)};
    if (!has_events_) refuse_trace(file_, "/traceEvents", "is no list of events");
    return {.trace = reader_.finish(), .step_times_s = {}};
  }

 private:
  enum class Where : std::uint8_t { File, Events, Device, Distributed };

  [[nodiscard]] bool in_event() const {
    return where_ == Where::Events &&
           (depth_ == event_depth_ || (in_arguments_ && depth_ == event_depth_ + 1));
  }
  static bool is_list(EventField field) {
    return field == EventField::Dims || field == EventField::Types ||
           field == EventField::Scalars || field == EventField::GroupRanks;
  }
  void begin_events() {
    where_ = Where::Events;
    event_depth_ = depth_ + 1;
    has_events_ = true;
  }

  // Lists of an argument are kept as JSON text: from their first bracket to the last, every
  // callback appends what it gets.
  [[nodiscard]] bool captures() const { return nested_ > 0; }
  std::string& captured() {
    if (field_ == EventField::Dims) return event_.dims;
    if (field_ == EventField::Types) return event_.types;
    return field_ == EventField::Scalars ? event_.scalars : event_.members;
  }
  // Adds a comma, unless this is the first entry of a list or object, or the value of a key.
  void separate() {
    std::string& text = captured();
    if (!text.empty() && text.back() != '[' && text.back() != '{' && text.back() != ':')
      text += ',';
  }
  bool capture(std::string_view value, std::string_view after = "") {
    separate();
    captured().append(value).append(after);
    return true;
  }
  bool open(std::string_view bracket) {
    if (nested_ > 0) separate();
    captured() += bracket;
    ++nested_;
    return true;
  }
  bool close(std::string_view bracket) {
    captured() += bracket;
    --nested_;
    return true;
  }

  bool other(std::string_view value) {
    if (captures()) return capture(value);
    if (depth_ == 1 && root_is_list_) other_entries_ = true;
    return true;
  }
  bool integer(std::int64_t value) {
    if (depth_ == 1 && root_is_list_) step_times_.push_back(static_cast<double>(value));
    if (captures()) return capture(std::to_string(value));
    if (in_event()) {
      set_integer(value);
    } else if (where_ == Where::Device && key_ == "numSms" && reader_.trace().sms == 0) {
      reader_.trace().sms = value;
    } else if (where_ == Where::Distributed && depth_ == 2 && key_ == "rank" && value >= 0 &&
               value < kAbsent) {
      reader_.trace().rank = static_cast<std::uint32_t>(value);
    }
    return true;
  }

  void set_time(std::string_view digits) {
    if (field_ == EventField::Start) event_.has_start = nanoseconds_of(digits, event_.start_ns);
    if (field_ == EventField::Duration)
      event_.has_duration = nanoseconds_of(digits, event_.duration_ns);
  }
  void set_integer(std::int64_t value) {
    switch (field_) {
      case EventField::Start:
      case EventField::Duration:
        return set_time(std::to_string(value));
      case EventField::Process:
        event_.process = static_cast<std::uint64_t>(value);
        return;
      case EventField::Thread:
        event_.thread = static_cast<std::uint64_t>(value);
        return;
      case EventField::FlowId:
        event_.flow = value;
        return;
      case EventField::ExternalId:
        event_.external_id = value;
        return;
      case EventField::Correlation:
        event_.correlation = value;
        return;
      case EventField::Stream:
        event_.stream = value;
        return;
      case EventField::Sequence:
        event_.sequence = value;
        return;
      case EventField::Bytes:
        event_.bytes = value;
        return;
      case EventField::InElements:
        event_.in_elements = value;
        return;
      case EventField::OutElements:
        event_.out_elements = value;
        return;
      case EventField::GroupSize:
        event_.ranks = value;
        return;
      default:
        return;
    }
  }
  void set_text(const std::string& text) {
    switch (field_) {
      case EventField::Phase:
        event_.phase = text;
        return;
      case EventField::Category:
        event_.category = text;
        return;
      case EventField::Name:
        event_.name = text;
        return;
      case EventField::Process:
        // lane_of() has room for 32 bits of a process.
        event_.process = std::hash<std::string>{}(text) >> 32U;
        return;
      case EventField::Thread:
        event_.thread = std::hash<std::string>{}(text);
        return;
      case EventField::Simulated:
        event_.simulated = text;
        return;
      case EventField::CollectiveName:
        event_.collective = text;
        return;
      case EventField::ElementKind:
        event_.element = text;
        return;
      case EventField::GroupName:
        event_.group = text;
        return;
      case EventField::GroupRanks:
        event_.members = text;
        return;
      default:
        return;
    }
  }
  // Users add the version by prof.add_metadata("pytorch_version", torch.__version__).
  void set_file_text(const std::string& text) {
    std::string key = lower_case(key_);
    std::erase_if(key, [](char letter) { return !is_letter(letter); });
    if (key == "pytorchversion" || key == "torchversion")
      reader_.trace().software = "PyTorch " + text;
  }

  std::string file_;
  EventReader reader_;
  Event event_;
  std::string key_;
  std::vector<double> step_times_;
  std::size_t depth_ = 0;
  std::size_t event_depth_ = 0;
  std::size_t nested_ = 0;  // depth within a list that is kept
  std::size_t count_ = 0;   // events
  EventField field_ = EventField::None;
  Where where_ = Where::File;
  bool in_arguments_ = false;
  bool root_is_list_ = false;
  bool other_entries_ = false;
  bool has_events_ = false;
};

}  // namespace

KinetoFile read_kineto_stream(const std::string& name, std::istream& stream) {
  Handler handler(name);
  (void)nlohmann::ordered_json::sax_parse(stream, &handler);
  return handler.finish();
}

GpuTrace read_kineto(const std::filesystem::path& file) {
  InputStream input(file);
  KinetoFile read = read_kineto_stream(file.string(), input.stream());
  if (!read.step_times_s.empty())
    refuse_trace(file.string(), "", "is a list of numbers, not a trace");
  return std::move(read.trace);
}

}  // namespace trainyard
