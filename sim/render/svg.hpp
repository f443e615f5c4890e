// The frame of an SVG picture for any browser: a white page, a title, escaped text, colours.
//
//    std::string svg = svg_page({.title = "sweep", .width = 800, .height = 500, .body = shapes});
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainyard {

// Returns the text with &, <, > and " as entities and control characters as spaces.
[[nodiscard]] std::string svg_escaped(std::string_view text);
// Does the same but keeps line breaks, for text in an HTML <pre>.
[[nodiscard]] std::string html_escaped(std::string_view text);

// Returns colour `number` of a cycle of ten: eight colours that colour-blind readers can
// distinguish (M. Okabe, K. Ito, Color Universal Design, 2008), then two greys.
[[nodiscard]] std::string_view svg_colour(std::size_t number);

struct SvgPage {
  std::string title;
  double width = 0.0;
  double height = 0.0;
  std::string body;  // SVG elements
};
// Returns a complete document; the title is at (80, 30).
[[nodiscard]] std::string svg_page(const SvgPage& page);

}  // namespace trainyard
