// The packets of a Perfetto trace (protos/perfetto/trace/trace_packet.proto) that Trainyard writes.
//
// Each track is a section of the file. Its head names the track and holds the values that differ
// between ranks; its body contains neither, so that tracks of ranks of one class have the same
// body, byte by byte. All sections belong to one packet sequence, whose state each head clears.
// Within a body, times are differences from the previous event, names are numbers of an interning
// table that the body itself contains, and some hundred packets at a time are compressed, as
// Perfetto's own recorder does.
//
//    TrackBody body(values_of_rank.size());
//    body.begin({.at_ns = 0, .category = "kernel", .name = "gemm"});
//    body.end(1000, {});
//    file += track_head(uuid, values_of_rank, body.used_values()) + body.finish();
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "sim/render/traces/class_trace.hpp"

namespace trainyard::perfetto {

// A message in the wire format of protocol buffers (protobuf.dev/programming-guides/encoding). A
// trace needs only a dozen fields of Perfetto's messages and must be writable where protobuf is not
// installed, so this class encodes the format itself, in four kinds of field.
//
//    WireMessage event;
//    event.number(9, 1);          // two bytes: field 9 as a varint, its value
//    packet.message(11, event);
class WireMessage {
 public:
  void number(std::uint32_t field, std::uint64_t value);  // a varint: 7 bits per byte, lowest first
  // A negative number takes ten bytes, as the format defines.
  void signed_number(std::uint32_t field, std::int64_t value);
  void fixed(std::uint32_t field, std::uint64_t value);  // 8 bytes, little endian
  void real(std::uint32_t field, double value);
  void text(std::uint32_t field, std::string_view value);
  void message(std::uint32_t field, const WireMessage& value) { text(field, value.bytes_); }
  // Appends bytes that are already encoded.
  void append(std::string_view bytes) { bytes_ += bytes; }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  void clear() { bytes_.clear(); }

 private:
  void varint(std::uint64_t value);

  std::string bytes_;
};

struct Track {
  std::uint64_t uuid = 0;     // unique in the trace, not 0
  std::uint64_t process = 0;  // process number
  std::string name = {};
  std::uint64_t position = 0;  // in the viewer, from the top
};
// Return the packets that declare a track: a process, a thread of it, a counter of it.
[[nodiscard]] std::string process_packet(const Track& track);
[[nodiscard]] std::string thread_packet(const Track& track, std::uint64_t parent_uuid,
                                        std::uint64_t number);
enum class CounterUnit : std::uint8_t { None, Bytes };
// Counters in bytes are written as differences, others as values.
[[nodiscard]] std::string counter_packet(const Track& track, std::uint64_t parent_uuid,
                                         CounterUnit unit);

// Starts a section. Arguments of the body that are values of a rank refer to the texts that the
// head defines, by index_of. `used` lists the values that the body refers to.
[[nodiscard]] std::string track_head(std::uint64_t uuid, std::span<const std::string> rank_values,
                                     const std::set<std::size_t>& used);

// Returns a packet that viewers ignore.
[[nodiscard]] std::string remark_packet(std::string_view text);

struct SliceBegin {
  std::int64_t at_ns = 0;
  std::string_view category = {};
  std::string_view name = {};
  std::span<const ShownArgument> arguments = {};
  std::uint64_t flow = 0;  // number of the arrow that starts here; 0: none
};

// The body of a section: events of one track, encoded and compressed.
class TrackBody {
 public:
  // `values_of_rank` is the number of a rank's values. They have the first text numbers; the texts
  // of the body follow.
  explicit TrackBody(std::size_t values_of_rank) : own_values_from_(values_of_rank + 1) {}

  // REQUIRES: events in order of time; the texts outlive the body.
  void begin(const SliceBegin& slice);
  void end(std::int64_t at_ns, std::uint64_t flow);  // `flow`: the arrow that ends here; 0: none
  void change(std::int64_t at_ns, std::int64_t difference);
  void value(std::int64_t at_ns, std::uint64_t track_uuid, double value);

  // Returns the rank's values that the head of this body must hold.
  [[nodiscard]] const std::set<std::size_t>& used_values() const { return used_values_; }
  // Returns all packets, compressed. REQUIRES: no event follows.
  [[nodiscard]] std::string finish();

 private:
  // The numbers of texts, for one field of InternedData.
  struct Table {
    std::uint32_t field = 0;
    std::unordered_map<std::string_view, std::uint64_t> numbers = {};
  };

  [[nodiscard]] std::uint64_t number_of(Table& table, std::string_view text, std::uint64_t first);
  void argument(const ShownArgument& argument);
  void write_event(std::int64_t at_ns);
  void compress();

  std::uint64_t own_values_from_;
  std::set<std::size_t> used_values_;
  Table categories_{1};
  Table names_{2};
  Table argument_names_{3};
  Table argument_texts_{29};
  // Under construction; members, to reuse their storage.
  WireMessage event_, packet_, annotation_, new_texts_;
  WireMessage packets_;  // not compressed yet
  std::string compressed_;
  std::int64_t last_ns_ = 0;
};

}  // namespace trainyard::perfetto
