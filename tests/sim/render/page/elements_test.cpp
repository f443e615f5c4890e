// The elements of pages: escaped, sorted, explained.
#include "sim/render/page/elements.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sim/render/page/document.hpp"
#include "sim/render/page/terms.hpp"

namespace trainyard {
namespace {

using testing::HasSubstr;
using testing::Not;

// Are cells escaped, numbers aligned and bars drawn?
TEST(Elements, ATableKnowsNumbersTextAndBars) {
  TextTable table({"name", "step", ""});
  table.row({"a <b>", "12.3 ms", bar(0.5)});
  table.row({"c", "-", bar(0.1)});
  const std::string html = html_table(table);
  EXPECT_THAT(html,
              HasSubstr("<td class=\"short\">a &lt;b&gt;</td><td class=\"number\">12.3 ms</td>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"bar\"><i style=\"width:50%\"></i></td>"));
  EXPECT_EQ(html_table(TextTable({"name"})), "");
}

// Does a column title with a unit link to the glossary, and does the glossary hold linked terms
// only?
TEST(Elements, TermsLeadToTheGlossary) {
  EXPECT_EQ(help_term("busbw (GB/s)"), "<a class=\"term\" href=\"#term-busbw\">busbw (GB/s)</a>");
  EXPECT_EQ(help_term("no such <word>"), "no such &lt;word&gt;");
  const std::string list = glossary(help_term("MFU"));
  EXPECT_THAT(list, HasSubstr("<dt id=\"term-mfu\">"));
  EXPECT_THAT(list, Not(HasSubstr("term-hfu")));
  EXPECT_EQ(glossary("<p>nothing</p>"), "");
}

// Does each word of the glossary name one term?
TEST(Elements, AWordNamesOneTerm) {
  std::set<std::string_view> ids, words;
  for (const PageTerm& term : page_terms()) {
    EXPECT_TRUE(ids.insert(term.id).second) << term.id;
    EXPECT_TRUE(words.insert(term.name).second) << term.name;
    for (const std::string_view word : term.also) {
      if (word.empty() || word == term.name) continue;
      EXPECT_TRUE(words.insert(word).second) << word;
      EXPECT_EQ(find_term(word), &term) << word;
    }
    EXPECT_TRUE(term.meaning.ends_with('.')) << term.id;
  }
  EXPECT_GE(ids.size(), 30U);
}

// Are sections listed in the contents, and those without content left out of both?
TEST(Document, ListsTheSectionsThatHaveContent) {
  const std::string page = page_document(
      {.title = "A & B",
       .lead = "",
       .parts = {{"one", "One", "<p>text</p>"}, {"two", "Two", "", {{"empty", "Empty", ""}}}}});
  EXPECT_THAT(page, HasSubstr("<title>A &amp; B</title>"));
  EXPECT_THAT(page, HasSubstr("<a href=\"#one\">One</a>"));
  EXPECT_THAT(page, HasSubstr("<section id=\"one\">"));
  EXPECT_THAT(page, Not(HasSubstr("Two")));
  EXPECT_THAT(page, Not(HasSubstr("Empty")));
  EXPECT_THAT(page, Not(HasSubstr("page-data"))) << "no data, no script that reads it";
}

}  // namespace
}  // namespace trainyard
