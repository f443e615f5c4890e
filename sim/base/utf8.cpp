#include "sim/base/utf8.hpp"

#include <cstddef>

namespace trainyard {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

bool within(unsigned char byte, unsigned least, unsigned most) {
  return byte >= least && byte <= most;
}

// Bytes of the character that a byte begins; none where it begins none.
std::size_t length_after(unsigned char first) {
  if (first < 0x80) return 1;
  if (within(first, 0xc2, 0xdf)) return 2;
  if (within(first, 0xe0, 0xef)) return 3;
  return within(first, 0xf0, 0xf4) ? 4 : 0;
}

// The second byte tells what is too long a way to write a character, half of a pair (U+D800 to
// U+DFFF), or above U+10FFFF.
bool fits_first(unsigned char first, unsigned char second) {
  return within(second,
                first == 0xe0   ? 0xa0U
                : first == 0xf0 ? 0x90U
                                : 0x80U,
                first == 0xed   ? 0x9fU
                : first == 0xf4 ? 0x8fU
                                : 0xbfU);
}

// Bytes of the whole character that the text begins with; none where it begins with none.
std::size_t character(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = length_after(byte(0));
  if (length == 0 || length > text.size()) return 0;
  if (length > 1 && !fits_first(byte(0), byte(1))) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (!within(byte(i), 0x80, 0xbf)) return 0;
  }
  return length;
}

}  // namespace

std::string as_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character(text);
    result += length == 0 ? kReplacement : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = character(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace trainyard
