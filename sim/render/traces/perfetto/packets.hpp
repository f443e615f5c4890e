// The packets of a Perfetto trace (protos/perfetto/trace/trace_packet.proto) that we write.
//
// A track is a section of the file: a head that names its track and what differs between ranks, and
// a body that says neither, so that tracks of ranks of one class have the same body, byte by byte.
// All sections are of one packet sequence, whose state each head clears. Within a body times are
// differences to the event before, names are numbers of a table that the body itself brings along,
// and packets are compressed some hundred at a time, as Perfetto's own recorder does.
//
//   TrackBody body(values_of_rank.size());
//   body.begin({.at_ns = 0, .category = "kernel", .name = "gemm"});
//   body.end(1000, {});
//   file += track_head(uuid, values_of_rank, body.used_values()) + body.finish();
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
// trace needs a dozen fields of Perfetto's messages, and must be written where protobuf is not
// installed; so the format is spoken here, in its four kinds of field.
//
//   WireMessage event;
//   event.number(9, 1);          // two bytes: field 9 as a varint, its value
//   packet.message(11, event);
class WireMessage {
 public:
  void number(std::uint32_t field, std::uint64_t value);  // a varint: 7 bits a byte, lowest first
  // Negative numbers take ten bytes, as the format has it.
  void signed_number(std::uint32_t field, std::int64_t value);
  void fixed(std::uint32_t field, std::uint64_t value);  // 8 bytes, little endian
  void real(std::uint32_t field, double value);
  void text(std::uint32_t field, std::string_view value);
  void message(std::uint32_t field, const WireMessage& value) { text(field, value.bytes_); }
  // Bytes that are already in the format.
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
  std::uint64_t process = 0;  // number of the process
  std::string name = {};
  std::uint64_t position = 0;  // in the viewer, from above
};
// Packets that make a track known: a process, a thread of it, a counter of it.
[[nodiscard]] std::string process_packet(const Track& track);
[[nodiscard]] std::string thread_packet(const Track& track, std::uint64_t parent_uuid,
                                        std::uint64_t number);
enum class CounterUnit : std::uint8_t { None, Bytes };
// Counters in bytes are written as differences, the others as values.
[[nodiscard]] std::string counter_packet(const Track& track, std::uint64_t parent_uuid,
                                         CounterUnit unit);

// Starts a section. Arguments of the body that are values of a rank get them from here, by
// index_of; `used` says which there are.
[[nodiscard]] std::string track_head(std::uint64_t uuid, std::span<const std::string> rank_values,
                                     const std::set<std::size_t>& used);

// A packet that viewers pass over.
[[nodiscard]] std::string remark_packet(std::string_view text);

struct SliceBegin {
  std::int64_t at_ns = 0;
  std::string_view category = {};
  std::string_view name = {};
  std::span<const ShownArgument> arguments = {};
  std::uint64_t flow = 0;  // an arrow that starts here; 0: none
};

class TrackBody {
 public:
  // `values_of_rank`: how many there are. Their numbers come before those of the body's own texts.
  explicit TrackBody(std::size_t values_of_rank) : own_values_from_(values_of_rank + 1) {}

  // REQUIRES: in order of time; texts outlive the body.
  void begin(const SliceBegin& slice);
  void end(std::int64_t at_ns, std::uint64_t flow);  // with the arrow that ends here; 0: none
  void change(std::int64_t at_ns, std::int64_t difference);
  void value(std::int64_t at_ns, std::uint64_t track_uuid, double value);

  // Which values of a rank its head must carry.
  [[nodiscard]] const std::set<std::size_t>& used_values() const { return used_values_; }
  // All packets, compressed; nothing may follow.
  [[nodiscard]] std::string finish();

 private:
  // Texts by number, of one field of InternedData.
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
  WireMessage event_, packet_, annotation_, new_texts_;  // being built, kept for their storage
  WireMessage packets_;                                  // not yet compressed
  std::string compressed_;
  std::int64_t last_ns_ = 0;
};

}  // namespace trainyard::perfetto
