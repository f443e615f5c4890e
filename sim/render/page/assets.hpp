// Style and script of a page, and of uPlot where it was within reach of the build; made by CMake
// from assets/ (assets.cpp.in).
#pragma once

#include <string_view>

namespace trainyard {

[[nodiscard]] std::string_view page_style();
[[nodiscard]] std::string_view page_script();
// Empty where the build had no uPlot: pages then keep to their still pictures.
[[nodiscard]] std::string_view chart_library_style();
[[nodiscard]] std::string_view chart_library_script();
[[nodiscard]] std::string_view chart_library_name();

}  // namespace trainyard
