#include "sim/render/page/elements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "sim/render/page/terms.hpp"
#include "sim/render/svg.hpp"

namespace trainyard {

namespace {

// Whether a cell is a number, with or without a unit, or stands for an absent one.
bool is_number(std::string_view cell) {
  if (cell.empty() || cell == "-") return true;
  if (cell.front() == '+' || cell.front() == '-') cell.remove_prefix(1);
  return !cell.empty() && std::isdigit(static_cast<unsigned char>(cell.front())) != 0;
}

bool is_bar(std::string_view cell) {
  return !cell.empty() && cell.find_first_not_of("# ") == std::string_view::npos;
}

// The kind that all cells of a column share.
enum class Column { Text, Number, Bar };

Column column_of(const TextTable& table, std::size_t column) {
  bool bar = false;
  bool number = true;
  for (const std::vector<std::string>& cells : table.rows()) {
    bar = bar || is_bar(cells[column]);
    number = number && is_number(cells[column]);
  }
  return bar ? Column::Bar : number ? Column::Number : Column::Text;
}

// `html` is the cell's content.
std::string cell_html(const std::string& cell, Column column, const std::string& html) {
  if (column == Column::Bar) {
    // text_table.hpp: one '#' stands for 2 %.
    const auto percent = 2 * std::count(cell.begin(), cell.end(), '#');
    return fmt::format("<td class=\"bar\"><i style=\"width:{}%\"></i></td>", percent);
  }
  // Only long texts may break.
  constexpr std::size_t kShort = 28;
  return fmt::format("<td{}>{}</td>",
                     column == Column::Number ? " class=\"number\""
                     : cell.size() <= kShort  ? " class=\"short\""
                                              : "",
                     html);
}

}  // namespace

std::string help_term(std::string_view word) {
  const PageTerm* term = find_term(word);
  if (term == nullptr) return svg_escaped(word);
  return fmt::format("<a class=\"term\" href=\"#term-{}\">{}</a>", term->id, svg_escaped(word));
}

std::string glossary(std::string_view html) {
  std::string list;
  for (const PageTerm& term : page_terms()) {
    if (html.find(fmt::format("\"#term-{}\"", term.id)) == std::string_view::npos) continue;
    list += fmt::format("<dt id=\"term-{}\">{}</dt><dd>{}</dd>\n", term.id, svg_escaped(term.name),
                        svg_escaped(term.meaning));
  }
  return list.empty() ? list : "<dl class=\"terms\">\n" + list + "</dl>\n";
}

std::string html_table(const TextTable& table) {
  if (table.rows().empty()) return "";
  std::vector<Column> columns;
  std::string html = "<div class=\"scroll\"><table class=\"sorts\">\n<thead><tr>";
  for (std::size_t i = 0; i < table.titles().size(); ++i) {
    columns.push_back(column_of(table, i));
    html += fmt::format("<th scope=\"col\"{}>{}</th>",
                        columns.back() == Column::Number ? " class=\"number\"" : "",
                        help_term(table.titles()[i]));
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& cells : table.rows()) {
    html += "<tr>";
    // The first column names what a row is about.
    for (std::size_t i = 0; i < cells.size(); ++i)
      html += cell_html(cells[i], columns[i], i == 0 ? help_term(cells[i]) : svg_escaped(cells[i]));
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table></div>\n";
}

std::string html_cards(const std::vector<PageCard>& cards) {
  std::string html = "<dl class=\"cards\">\n";
  for (const PageCard& card : cards) {
    html +=
        fmt::format("<div><dt>{}</dt><dd>{}</dd>", help_term(card.name), svg_escaped(card.value));
    for (const std::string& note : card.notes)
      html += "<dd class=\"note\">" + svg_escaped(note) + "</dd>";
    html += "</div>\n";
  }
  return html + "</dl>\n";
}

std::string html_keys(const std::vector<PageKey>& keys) {
  std::string html = "<p class=\"keys\">";
  for (const PageKey& key : keys)
    html += fmt::format("<span class=\"key\"><i style=\"background:{}\"></i>{}</span>\n",
                        key.colour, help_term(key.name));
  return html + "</p>\n";
}

std::string series_colour(std::size_t number) { return fmt::format("var(--s{})", number % 8); }

std::string html_paragraph(std::string_view text) {
  return text.empty() ? "" : "<p>" + svg_escaped(text) + "</p>\n";
}

std::string html_list(const std::vector<std::string>& entries) {
  if (entries.empty()) return "";
  std::string html = "<ul>\n";
  for (const std::string& entry : entries) html += "<li>" + svg_escaped(entry) + "</li>\n";
  return html + "</ul>\n";
}

std::string html_verdict(std::string_view text, bool good) {
  return fmt::format("<p class=\"verdict {}\">{}</p>\n", good ? "fits" : "fails",
                     svg_escaped(text));
}

std::string html_facts(const std::vector<PageFact>& facts) {
  if (facts.empty()) return "";
  std::string html = "<dl class=\"facts\">\n";
  for (const PageFact& fact : facts)
    html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", help_term(fact.name), svg_escaped(fact.text));
  return html + "</dl>\n";
}

std::string html_command(std::string_view command) {
  std::string lines = html_escaped(command);
  // The inserted text ends with a space before the option, so the search continues behind it.
  for (std::size_t at = lines.find(" --"); at != std::string::npos; at = lines.find(" --", at + 6))
    lines.replace(at, 1, " \\\n  ");
  return "<pre class=\"command\">" + lines + "</pre>\n";
}

std::string html_details(std::string_view summary, const std::string& html) {
  if (html.empty()) return "";
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", svg_escaped(summary), html);
}

}  // namespace trainyard
