// Colours the text of a report for a terminal.
//
//    coloured("fits: 61 GiB of 80 GiB\n");   // with "fits" in green
#pragma once

#include <string>
#include <string_view>

namespace trainyard {

// Adds ANSI escape codes, and changes no other character: the word of a verdict is green
// ("fits") or red ("DOES NOT FIT"), a bar of # at the end of a line is blue, and a title (a line
// that begins with a capital letter, before a line that is indented) is bold.
[[nodiscard]] std::string coloured(std::string_view report);

}  // namespace trainyard
