// A message in the wire format of protocol buffers (protobuf.dev/programming-guides/encoding).
//
// A trace needs a dozen fields of Perfetto's messages, and must be written where protobuf is not
// installed; so the format is spoken here, in its four kinds of field.
//
//   WireMessage event;
//   event.number(9, 1);          // two bytes: field 9 as a varint, its value
//   packet.message(11, event);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trainyard {

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

}  // namespace trainyard
