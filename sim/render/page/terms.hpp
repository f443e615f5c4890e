// The glossary of the pages: what each term of a table, a chart or a card means.
//
//    if (const PageTerm* term = find_term("busbw (GB/s)")) term->meaning;
#pragma once

#include <array>
#include <span>
#include <string_view>

namespace trainyard {

struct PageTerm {
  std::string_view id;                     // "busbw"
  std::string_view name;                   // as the glossary prints it
  std::string_view meaning;                // one or two sentences
  std::array<std::string_view, 8> also{};  // other words of the pages for it
};

[[nodiscard]] std::span<const PageTerm> page_terms();

// Returns the term that a word of a page names, with or without a unit in brackets after it;
// nullptr if there is none.
[[nodiscard]] const PageTerm* find_term(std::string_view word);

}  // namespace trainyard
