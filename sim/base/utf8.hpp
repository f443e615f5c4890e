// Text that others must be able to read: JSON, and with it every result, is UTF-8 only, while file
// names and the files that users give may hold any bytes.
#pragma once

#include <string>
#include <string_view>

namespace trainyard {

// The text with U+FFFD in place of each byte that is no part of a character (Unicode 15, table
// 3-7): as_utf8("caf\xe9") == "caf\xef\xbf\xbd". Text that is UTF-8 stays as it is.
[[nodiscard]] std::string as_utf8(std::string_view text);

[[nodiscard]] bool is_utf8(std::string_view text);

// Text that a terminal shows as it is, for names that anybody may have written: as_utf8, with
// control characters but tabs and line ends, and those that turn the direction of writing, as
// "\\u001b". Within the strings of JSON that is the same character.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace trainyard
