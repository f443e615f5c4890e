// The beginnings of an SVG picture that any browser shows: a white page, a title, escaped text.
//
//   std::string svg = svg_page({.title = "sweep", .width = 800, .height = 500, .body = shapes});
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainyard {

// With &, <, > and " written as entities and control characters as spaces.
[[nodiscard]] std::string svg_escaped(std::string_view text);
// The same, but lines stay lines: for text in an HTML <pre>.
[[nodiscard]] std::string html_escaped(std::string_view text);

// One of eight colours that people who see few can tell apart (M. Okabe, K. Ito, Color Universal
// Design, 2008), then two greys, again from the first after the tenth.
[[nodiscard]] std::string_view svg_colour(std::size_t number);

struct SvgPage {
  std::string title;
  double width = 0.0;
  double height = 0.0;
  std::string body;  // elements
};
// A complete document; the title stands at (80, 30).
[[nodiscard]] std::string svg_page(const SvgPage& page);

}  // namespace trainyard
