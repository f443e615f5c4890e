#include "sim/render/traces/perfetto/wire_message.hpp"

#include <bit>

namespace trainyard {
namespace {

// How a field's value is written, in the low three bits of its tag.
enum WireType : std::uint64_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2 };
constexpr unsigned kTypeBits = 3;
constexpr unsigned kVarintBits = 7;
constexpr std::uint64_t kVarintMore = 0x80;
constexpr unsigned kBytesOfFixed = 8;
constexpr unsigned kBitsOfByte = 8;

std::uint64_t tag(std::uint32_t field, WireType type) {
  return (std::uint64_t{field} << kTypeBits) | type;
}

}  // namespace

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

}  // namespace trainyard
