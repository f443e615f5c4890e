// ASCII letters, independent of the locale. Other bytes, such as those of UTF-8, are no letters.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace trainyard {

constexpr char lower_case(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}
constexpr bool is_letter(char letter) {
  return lower_case(letter) >= 'a' && lower_case(letter) <= 'z';
}
constexpr bool is_letter_or_digit(char letter) {
  return is_letter(letter) || (letter >= '0' && letter <= '9');
}

[[nodiscard]] inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char letter) { return lower_case(letter); });
  return lower;
}

}  // namespace trainyard
