#include "sim/render/traces/perfetto/packets.hpp"

#include <zlib.h>

#include <bit>

#include "sim/base/check.hpp"

namespace trainyard::perfetto {
namespace {

// The encoding of a field's value, in the low three bits of its tag.
enum WireType : std::uint64_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2 };
constexpr unsigned kTypeBits = 3;
constexpr unsigned kVarintBits = 7;
constexpr std::uint64_t kVarintMore = 0x80;
constexpr unsigned kBytesOfFixed = 8;
constexpr unsigned kBitsOfByte = 8;

std::uint64_t tag(std::uint32_t field, WireType type) {
  return (std::uint64_t{field} << kTypeBits) | type;
}

// Field numbers, as in the .proto files named.
namespace trace {  // trace.proto
constexpr std::uint32_t kPacket = 1;
}
namespace packet {  // trace_packet.proto
constexpr std::uint32_t kClockSnapshot = 6;
constexpr std::uint32_t kTimestamp = 8;
constexpr std::uint32_t kSequence = 10;
constexpr std::uint32_t kTrackEvent = 11;
constexpr std::uint32_t kInternedData = 12;
constexpr std::uint32_t kSequenceFlags = 13;
constexpr std::uint32_t kCompressedPackets = 50;
constexpr std::uint32_t kDefaults = 59;
constexpr std::uint32_t kTrackDescriptor = 60;
constexpr std::uint32_t kForTesting = 900;
}  // namespace packet
namespace defaults {  // trace_packet_defaults.proto
constexpr std::uint32_t kTrackEvent = 11;
constexpr std::uint32_t kClock = 58;
}  // namespace defaults
namespace event {  // track_event/track_event.proto
constexpr std::uint32_t kCategory = 3;
constexpr std::uint32_t kAnnotation = 4;
constexpr std::uint32_t kType = 9;
constexpr std::uint32_t kName = 10;
constexpr std::uint32_t kTrack = 11;
constexpr std::uint32_t kValue = 30;
constexpr std::uint32_t kReal = 44;
constexpr std::uint32_t kFlow = 47;
constexpr std::uint32_t kFlowEnd = 48;
}  // namespace event
namespace annotation {  // track_event/debug_annotation.proto
constexpr std::uint32_t kName = 1;
constexpr std::uint32_t kNumber = 4;
constexpr std::uint32_t kText = 17;
}  // namespace annotation
namespace interned {  // interned_data/interned_data.proto and the messages of its entries
constexpr std::uint32_t kArgumentTexts = 29;
constexpr std::uint32_t kNumber = 1;
constexpr std::uint32_t kText = 2;
}  // namespace interned
namespace descriptor {  // track_event/{track,process,thread,counter}_descriptor.proto
constexpr std::uint32_t kUuid = 1;
constexpr std::uint32_t kName = 2;
constexpr std::uint32_t kProcess = 3;
constexpr std::uint32_t kThread = 4;
constexpr std::uint32_t kParent = 5;
constexpr std::uint32_t kCounter = 8;
constexpr std::uint32_t kPid = 1;
constexpr std::uint32_t kTid = 2;
constexpr std::uint32_t kSortIndex = 3;
constexpr std::uint32_t kThreadName = 5;
constexpr std::uint32_t kProcessName = 6;
constexpr std::uint32_t kUnit = 3;
constexpr std::uint32_t kIncremental = 5;
}  // namespace descriptor
namespace clock_snapshot {  // clock_snapshot.proto
constexpr std::uint32_t kClock = 1;
constexpr std::uint32_t kId = 1;
constexpr std::uint32_t kTime = 2;
constexpr std::uint32_t kIncremental = 3;
}  // namespace clock_snapshot

// Values of enumerations.
constexpr std::uint64_t kStateCleared = 1;
constexpr std::uint64_t kNeedsState = 2;
constexpr std::uint64_t kSliceBegin = 1;
constexpr std::uint64_t kSliceEnd = 2;
constexpr std::uint64_t kCounterValue = 4;
constexpr std::uint64_t kUnitBytes = 3;
constexpr std::uint64_t kTraceClock = 6;        // BOOTTIME, the default clock of a trace
constexpr std::uint64_t kDifferenceClock = 64;  // the first clock that a sequence may define

constexpr std::uint64_t kTheSequence = 1;

// The .proto file requires: "Each compressed_packets TracePacket should be less than 512KB". The
// limit applies before compression here, so that it holds for any contents.
constexpr std::size_t kCompressedMost = std::size_t{448} * 1024;
constexpr int kCompression = 4;  // as in sim/render/output_stream.cpp

// A packet as an element of the trace file. A trace is a sequence of such elements, so files can be
// written piece by piece.
std::string framed(const WireMessage& one) {
  WireMessage file;
  file.message(trace::kPacket, one);
  return file.bytes();
}

std::string descriptor_packet(const WireMessage& track) {
  WireMessage one;
  one.message(packet::kTrackDescriptor, track);
  return framed(one);
}

WireMessage entry(std::uint64_t number, std::string_view text) {
  WireMessage one;
  one.number(interned::kNumber, number);
  one.text(interned::kText, text);
  return one;
}

WireMessage clock_at_start(std::uint64_t id, bool differences) {
  WireMessage clock;
  clock.number(clock_snapshot::kId, id);
  clock.number(clock_snapshot::kTime, 0);
  if (differences) clock.number(clock_snapshot::kIncremental, 1);
  return clock;
}

}  // namespace

// Seven bits per byte, the lowest first; the top bit marks that more bytes follow.
void WireMessage::varint(std::uint64_t value) {
  while (value >= kVarintMore) {
    bytes_ += static_cast<char>((value & (kVarintMore - 1)) | kVarintMore);
    value >>= kVarintBits;
  }
  bytes_ += static_cast<char>(value);
}

void WireMessage::number(std::uint32_t field, std::uint64_t value) {
  varint(tag(field, kVarint));
  varint(value);
}

// A negative number is written as its 64-bit two's complement, as protobuf does for int64.
void WireMessage::signed_number(std::uint32_t field, std::int64_t value) {
  number(field, static_cast<std::uint64_t>(value));
}

void WireMessage::fixed(std::uint32_t field, std::uint64_t value) {
  varint(tag(field, kFixed64));
  for (unsigned byte = 0; byte < kBytesOfFixed; ++byte)
    bytes_ += static_cast<char>(value >> (kBitsOfByte * byte));
}

void WireMessage::real(std::uint32_t field, double value) {
  fixed(field, std::bit_cast<std::uint64_t>(value));
}

void WireMessage::text(std::uint32_t field, std::string_view value) {
  varint(tag(field, kLengthDelimited));
  varint(value.size());
  bytes_ += value;
}

std::string process_packet(const Track& track) {
  WireMessage process, descriptor;
  process.number(descriptor::kPid, track.process);
  process.number(descriptor::kSortIndex, track.position);
  process.text(descriptor::kProcessName, track.name);
  descriptor.number(descriptor::kUuid, track.uuid);
  descriptor.message(descriptor::kProcess, process);
  return descriptor_packet(descriptor);
}

std::string thread_packet(const Track& track, std::uint64_t parent_uuid, std::uint64_t number) {
  WireMessage thread, descriptor;
  thread.number(descriptor::kPid, track.process);
  thread.number(descriptor::kTid, number);
  thread.number(descriptor::kSortIndex, track.position);
  thread.text(descriptor::kThreadName, track.name);
  descriptor.number(descriptor::kUuid, track.uuid);
  descriptor.number(descriptor::kParent, parent_uuid);
  descriptor.message(descriptor::kThread, thread);
  return descriptor_packet(descriptor);
}

// Memory counters have unit bytes and are written as differences; link counters are written as
// values.
std::string counter_packet(const Track& track, std::uint64_t parent_uuid, CounterUnit unit) {
  WireMessage counter, descriptor;
  if (unit == CounterUnit::Bytes) {
    counter.number(descriptor::kUnit, kUnitBytes);
    counter.number(descriptor::kIncremental, 1);
  }
  descriptor.number(descriptor::kUuid, track.uuid);
  descriptor.number(descriptor::kParent, parent_uuid);
  descriptor.text(descriptor::kName, track.name);
  descriptor.message(descriptor::kCounter, counter);
  return descriptor_packet(descriptor);
}

// Writes two packets. The first clears the state of the sequence and sets the track, the clock and
// the rank's values as defaults. The second sets the incremental clock to 0.
std::string track_head(std::uint64_t uuid, std::span<const std::string> rank_values,
                       const std::set<std::size_t>& used) {
  WireMessage track, defaults, texts, state;
  track.number(event::kTrack, uuid);
  defaults.number(defaults::kClock, kDifferenceClock);
  defaults.message(defaults::kTrackEvent, track);
  for (const std::size_t index : used)
    texts.message(interned::kArgumentTexts, entry(1 + index, rank_values[index]));
  state.number(packet::kSequence, kTheSequence);
  state.number(packet::kSequenceFlags, kStateCleared);
  state.message(packet::kDefaults, defaults);
  if (!texts.empty()) state.message(packet::kInternedData, texts);

  WireMessage snapshot, start;
  snapshot.message(clock_snapshot::kClock, clock_at_start(kTraceClock, false));
  snapshot.message(clock_snapshot::kClock, clock_at_start(kDifferenceClock, true));
  start.number(packet::kSequence, kTheSequence);
  start.number(packet::kSequenceFlags, kNeedsState);
  start.message(packet::kClockSnapshot, snapshot);
  return framed(state) + framed(start);
}

std::string remark_packet(std::string_view text) {
  WireMessage remark, one;
  remark.text(1, text);
  one.message(packet::kForTesting, remark);
  return framed(one);
}

// Returns the number of a text in an interning table and adds new texts to the next packet.
std::uint64_t TrackBody::number_of(Table& table, std::string_view text, std::uint64_t first) {
  const auto [place, is_new] = table.numbers.try_emplace(text, first + table.numbers.size());
  if (is_new) new_texts_.message(table.field, entry(place->second, text));
  return place->second;
}

// Values of a rank refer to texts that track_head() defines, so that all ranks of a class share the
// encoded body.
void TrackBody::argument(const ShownArgument& argument) {
  annotation_.clear();
  annotation_.number(annotation::kName, number_of(argument_names_, argument.name, 1));
  if (const auto* number = std::get_if<std::int64_t>(&argument.value)) {
    annotation_.signed_number(annotation::kNumber, *number);
  } else if (const auto* text = std::get_if<std::string_view>(&argument.value)) {
    annotation_.number(annotation::kText, number_of(argument_texts_, *text, own_values_from_));
  } else {
    const std::size_t index = index_of(std::get<RankValue>(argument.value));
    used_values_.insert(index);
    annotation_.number(annotation::kText, 1 + index);
  }
  event_.message(event::kAnnotation, annotation_);
}

void TrackBody::begin(const SliceBegin& slice) {
  event_.number(event::kType, kSliceBegin);
  event_.number(event::kCategory, number_of(categories_, slice.category, 1));
  event_.number(event::kName, number_of(names_, slice.name, 1));
  for (const ShownArgument& one : slice.arguments) argument(one);
  if (slice.flow != 0) event_.fixed(event::kFlow, slice.flow);
  write_event(slice.at_ns);
}

void TrackBody::end(std::int64_t at_ns, std::uint64_t flow) {
  event_.number(event::kType, kSliceEnd);
  if (flow != 0) event_.fixed(event::kFlowEnd, flow);
  write_event(at_ns);
}

void TrackBody::change(std::int64_t at_ns, std::int64_t difference) {
  event_.number(event::kType, kCounterValue);
  event_.signed_number(event::kValue, difference);
  write_event(at_ns);
}

void TrackBody::value(std::int64_t at_ns, std::uint64_t track_uuid, double value) {
  event_.number(event::kType, kCounterValue);
  event_.number(event::kTrack, track_uuid);
  event_.real(event::kReal, value);
  write_event(at_ns);
}

// Finishes the packet of the current event. Its time is the difference from the previous event.
void TrackBody::write_event(std::int64_t at_ns) {
  TY_CHECK(at_ns >= last_ns_, at_ns, last_ns_);
  packet_.number(packet::kTimestamp, static_cast<std::uint64_t>(at_ns - last_ns_));
  packet_.number(packet::kSequence, kTheSequence);
  packet_.number(packet::kSequenceFlags, kNeedsState);
  if (!new_texts_.empty()) packet_.message(packet::kInternedData, new_texts_);
  packet_.message(packet::kTrackEvent, event_);
  packets_.message(trace::kPacket, packet_);
  last_ns_ = at_ns;
  packet_.clear();
  event_.clear();
  new_texts_.clear();
  if (packets_.bytes().size() >= kCompressedMost) compress();
}

void TrackBody::compress() {
  const std::string& plain = packets_.bytes();
  uLongf size = compressBound(plain.size());
  std::string bytes(size, '\0');
  const auto* from = reinterpret_cast<const Bytef*>(plain.data());  // zlib's type for bytes
  const int status =
      compress2(reinterpret_cast<Bytef*>(bytes.data()), &size, from, plain.size(), kCompression);
  TY_CHECK(status == Z_OK, status);
  bytes.resize(size);
  WireMessage one;
  one.text(packet::kCompressedPackets, bytes);
  compressed_ += framed(one);
  packets_.clear();
}

std::string TrackBody::finish() {
  if (!packets_.empty()) compress();
  return std::move(compressed_);
}

}  // namespace trainyard::perfetto
