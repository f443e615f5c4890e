// The frame that all HTML pages share: head, title, theme switch, list of contents, sections and
// glossary. A page opens from disk without a network, in light and dark colours, on paper and on a
// phone.
//
//    page_document({.title = "Step of gpt3-175b",
//                   .lead = "<p>It fits.</p>\n",
//                   .parts = {{.id = "fits", .title = "Does it fit?", .html = table}}});
//
// A page is readable without a script. The script adds read-outs at the pointer, tables that sort
// and the theme switch.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

// A section, and the subsections in it. One without content is left out.
struct PagePart {
  std::string id;     // of the element, for links
  std::string title;  // plain text
  std::string html = {};
  std::vector<PagePart> parts = {};
};

struct PageDocument {
  std::string title;  // plain text
  std::string lead;   // HTML that comes before the list of contents: the question and the answer
  std::vector<PagePart> parts;
  // Read by the script that draws timelines and memory curves (page_data()); null: no such script.
  nlohmann::json data = nullptr;
};
// Returns the HTML document. Its glossary explains the terms that the page links to
// (elements.hpp).
[[nodiscard]] std::string page_document(const PageDocument& page);

// The style of every page, and its script. CMake generates them from assets/ (assets.cpp.in).
// The style defines the colours --ink, --paper, --line, --soft and --accent, which follow the
// system's theme unless data-theme of the root element is "light" or "dark".
[[nodiscard]] std::string_view page_style();
[[nodiscard]] std::string_view page_script();
// The script of pages with data: the timeline that zooms, and the read-outs of memory curves.
[[nodiscard]] std::string_view timeline_script();

}  // namespace trainyard
