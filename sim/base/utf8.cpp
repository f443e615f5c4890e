#include "sim/base/utf8.hpp"

#include <cstddef>

namespace trainyard {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

bool within(unsigned char byte, unsigned least, unsigned most) {
  return byte >= least && byte <= most;
}

// Returns the number of bytes of the character that starts with this byte; 0 if none does.
std::size_t length_after(unsigned char first) {
  if (first < 0x80) return 1;
  if (within(first, 0xc2, 0xdf)) return 2;
  if (within(first, 0xe0, 0xef)) return 3;
  return within(first, 0xf0, 0xf4) ? 4 : 0;
}

// The second byte decides whether the character is an overlong encoding, a surrogate (U+D800 to
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

// Returns the number of bytes of the complete character at the start of the text; 0 if there is
// none.
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

namespace {

// Returns the code point of a complete character.
unsigned code_point(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  constexpr unsigned kFirstBits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  unsigned code = byte(0) & kFirstBits[character.size()];
  for (std::size_t i = 1; i < character.size(); ++i) code = code << 6U | (byte(i) & 0x3fU);
  return code;
}

// True for control characters (category Cc) and for characters that change the writing direction of
// the following text (Bidi_Control in Unicode 15, PropList.txt).
bool is_terminal_control(unsigned code) {
  if (code == '\t' || code == '\n') return false;
  const auto in = [code](unsigned least, unsigned most) { return code >= least && code <= most; };
  return code < 0x20 || in(0x7f, 0x9f) || code == 0x061c || in(0x200e, 0x200f) ||
         in(0x202a, 0x202e) || in(0x2066, 0x2069);
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  const std::string readable = as_utf8(text);
  std::string result;
  result.reserve(readable.size());
  for (std::string_view rest = readable; !rest.empty();) {
    const std::string_view one = rest.substr(0, character(rest));
    rest.remove_prefix(one.size());
    const unsigned code = code_point(one);
    if (!is_terminal_control(code)) {
      result += one;
      continue;
    }
    result += "\\u";
    for (const unsigned shift : {12U, 8U, 4U, 0U}) result += kDigits[code >> shift & 0xfU];
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
