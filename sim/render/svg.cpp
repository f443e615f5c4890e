#include "sim/render/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace trainyard {

std::string html_escaped(std::string_view text) {
  std::string made;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        made += "&amp;";
        break;
      case '<':
        made += "&lt;";
        break;
      case '>':
        made += "&gt;";
        break;
      case '"':
        made += "&quot;";
        break;
      default:
        made += static_cast<unsigned char>(letter) < 0x20 && letter != '\n' ? ' ' : letter;
    }
  }
  return made;
}

std::string svg_escaped(std::string_view text) {
  std::string made = html_escaped(text);
  std::ranges::replace(made, '\n', ' ');
  return made;
}

std::string_view svg_colour(std::size_t number) {
  static constexpr std::array<std::string_view, 10> kColours{
      "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00",
      "#56B4E9", "#000000", "#8B6D00", "#999999", "#555555"};
  return kColours.at(number % kColours.size());
}

std::string svg_page(const SvgPage& page) {
  return fmt::format(
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg "
             "xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
             "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" "
             "font-size=\"12\">\n<title>{2}</title>\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
             "<text x=\"80\" y=\"30\" font-size=\"16\">{2}</text>\n",
             page.width, page.height, svg_escaped(page.title)) +
         page.body + "</svg>\n";
}

}  // namespace trainyard
