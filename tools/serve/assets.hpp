// The files of the page, built into the program: HTML, styles and ES modules. CMake makes the table
// from assets/ and adds the style of report pages (sim/render/page) and uPlot where it is there.
#pragma once

#include <span>
#include <string_view>

namespace trainyard::serve {

struct Asset {
  std::string_view path;  // "/app.css"
  std::string_view type;  // "text/css; charset=utf-8"
  std::string_view text;
};
[[nodiscard]] std::span<const Asset> assets();

}  // namespace trainyard::serve
