// The elements of a page: terms with help, tables that sort, cards, keys, bars.
//
//    std::string html = html_table(links_table(view));   // a column "busbw" links to its meaning
//    html += html_cards({{.name = "step time", .value = "13.2 s", .notes = {"like runs"}}});
//
// Arguments are plain text unless their name contains "html".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sim/render/text_table.hpp"

namespace trainyard {

// Returns the word as a link to its entry of the glossary, or as plain text if there is no entry.
// The script shows the entry at the pointer; without it the link leads to the glossary.
[[nodiscard]] std::string help_term(std::string_view word);
// Returns the glossary entries that some HTML links to, as a list; empty if there are none.
[[nodiscard]] std::string glossary(std::string_view html);

// Returns the table with columns that the script sorts: by number, with regard to units, where all
// cells of a column are numbers. A cell of '#' (text_table.hpp) becomes a bar. A table without rows
// is empty.
[[nodiscard]] std::string html_table(const TextTable& table);

// A key figure in large type, with short remarks below it.
struct PageCard {
  std::string name;
  std::string value;
  std::vector<std::string> notes = {};
};
[[nodiscard]] std::string html_cards(const std::vector<PageCard>& cards);

// An entry of a legend says what a colour means. `colour` is a CSS colour.
struct PageKey {
  std::string name;
  std::string colour;
};
[[nodiscard]] std::string html_keys(const std::vector<PageKey>& keys);

// Colour `number` of the cycle of series, in a shade that suits the theme: "var(--s3)".
[[nodiscard]] std::string series_colour(std::size_t number);

[[nodiscard]] std::string html_paragraph(std::string_view text);
[[nodiscard]] std::string html_list(const std::vector<std::string>& entries);
// A verdict, green or red.
[[nodiscard]] std::string html_verdict(std::string_view text, bool good);
// Lines of "name: text", as of a setup (RunFacts::setup).
struct PageFact {
  std::string name;
  std::string text;
};
[[nodiscard]] std::string html_facts(const std::vector<PageFact>& facts);
// A command, with each option on a line of its own.
[[nodiscard]] std::string html_command(std::string_view command);
// Returns an element that shows its content on demand.
[[nodiscard]] std::string html_details(std::string_view summary, const std::string& html);

}  // namespace trainyard
