#include "sim/render/page/document.hpp"

#include <fmt/format.h>

#include "sim/render/page/elements.hpp"
#include "sim/render/svg.hpp"

namespace trainyard {

namespace {

bool is_empty(const PagePart& part) {
  if (!part.html.empty()) return false;
  for (const PagePart& inner : part.parts)
    if (!is_empty(inner)) return false;
  return true;
}

// `level` is that of the heading.
std::string section(const PagePart& part, int level) {
  if (is_empty(part)) return "";
  std::string html = fmt::format("<section id=\"{0}\">\n<h{1}>{2}</h{1}>\n{3}", part.id, level,
                                 svg_escaped(part.title), part.html);
  for (const PagePart& inner : part.parts) html += section(inner, level + 1);
  return html + "</section>\n";
}

std::string contents_list(const std::vector<PagePart>& parts) {
  std::string html;
  for (const PagePart& part : parts) {
    if (is_empty(part)) continue;
    html += fmt::format("<li><a href=\"#{}\">{}</a>{}</li>\n", part.id, svg_escaped(part.title),
                        contents_list(part.parts));
  }
  return html.empty() ? html : "<ul>\n" + html + "</ul>\n";
}

// Prints JSON for a script element. The text may contain no "<", which could end the element or
// begin a comment in which the end tag would not count ("<!--<script>"; HTML, restrictions on the
// contents of script elements).
std::string script_json(const nlohmann::json& json) {
  std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at))
    text.replace(at, 1, "\\u003c");
  return text;
}

// Applies the theme that the reader chose before, ahead of the first paint. A browser may refuse
// to store anything for a page from disk.
constexpr std::string_view kThemeScript =
    "<script>try{const t=localStorage.getItem('trainyard-theme');"
    "if(t)document.documentElement.dataset.theme=t}catch(e){}</script>\n";

std::string scripts(const nlohmann::json& data) {
  std::string html;
  if (!data.is_null()) {
    html +=
        "<script type=\"application/json\" id=\"page-data\">" + script_json(data) + "</script>\n";
  }
  html += "<script>\n" + std::string(page_script()) + "</script>\n";
  if (!data.is_null()) html += "<script>\n" + std::string(timeline_script()) + "</script>\n";
  return html;
}

}  // namespace

std::string page_document(const PageDocument& page) {
  const std::string title = svg_escaped(page.title);
  std::string body;
  for (const PagePart& part : page.parts) body += section(part, 2);
  std::vector<PagePart> listed = page.parts;
  listed.push_back({.id = "terms", .title = "Terms", .html = glossary(page.lead + body)});
  body += section(listed.back(), 2);
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
         "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         title + "</title>\n<style>\n" + std::string(page_style()) + "</style>\n" +
         std::string(kThemeScript) +
         "</head>\n<body>\n<div class=\"page\">\n<header>\n<div class=\"top\"><h1>" + title +
         "</h1><button id=\"theme\" type=\"button\" hidden>Dark</button></div>\n" + page.lead +
         "</header>\n<nav class=\"contents\" aria-label=\"Contents\">\n" + contents_list(listed) +
         "</nav>\n<main>\n" + body + "</main>\n</div>\n" + scripts(page.data) +
         "</body>\n</html>\n";
}

}  // namespace trainyard
