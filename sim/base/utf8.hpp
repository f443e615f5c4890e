// UTF-8 for output: JSON, and with it every result, must be UTF-8, while file names and input files
// may contain any bytes.
#pragma once

#include <string>
#include <string_view>

namespace trainyard {

// Replaces each byte that is not part of a character (Unicode 15, table 3-7) by U+FFFD:
// as_utf8("caf\xe9") == "caf\xef\xbf\xbd". Valid UTF-8 stays unchanged.
[[nodiscard]] std::string as_utf8(std::string_view text);

[[nodiscard]] bool is_utf8(std::string_view text);

// Returns text that is safe on a terminal, for names from untrusted sources: as_utf8, with control
// characters except tabs and line ends, and characters that change the writing direction, written
// as "\\u001b". In a JSON string that is the same character.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace trainyard
