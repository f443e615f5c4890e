// Standard output of the command. Names in scenarios and files may hold characters that steer a
// terminal, so everything that is printed goes through here.
//
//   say("{} rows  {}\n", rows.size(), file);
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace trainyard {

// Prints printable(text). Throws InputError where standard output takes no more.
void print_text(std::string_view text);

template <class... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  print_text(fmt::format(format, std::forward<Values>(values)...));
}

// Prints printable(text) to standard error. It may be closed or full: then nobody can be told, and
// the exit code says enough.
void tell(std::string_view text);

// Writes printable(text) over the line of the terminal that the last such call wrote, cut to its
// length; an empty text clears the line.
void tell_over(std::string_view text);

// A stream that was closed (`trainyard ... >&-`) is opened so that using it fails as before: the
// first file that the command opens must not become its standard output.
void keep_standard_streams_apart();

}  // namespace trainyard
