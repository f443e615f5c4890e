// A comparison as one page that opens from disk: the verdict, what differs, where the time goes and
// what each change did.
//
//   write_file("compare.html", comparison_page(comparison));
#pragma once

#include <string>

#include "tools/studies/compare/comparison.hpp"

namespace trainyard {

// "B is 12.3 % quicker than A", for each side against the first.
[[nodiscard]] std::string comparison_verdict(const Comparison& comparison, std::size_t side);

// The HTML document, in the style of the report of a run.
[[nodiscard]] std::string comparison_page(const Comparison& comparison);

}  // namespace trainyard
