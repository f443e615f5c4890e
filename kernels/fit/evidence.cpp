#include "kernels/fit/evidence.hpp"

#include <fmt/format.h>

#include <cmath>

namespace trainyard::fit {

double rounded(double x) { return std::round(x * 1e4) / 1e4; }
Seconds rounded(Seconds t) { return Seconds{std::round(t.value() * 1e9) / 1e9}; }

json errors_json(const Errors& errors) {
  return {{"shapes", errors.count},
          {"median", rounded(errors.median)},
          {"p95", rounded(errors.p95)},
          {"bias", rounded(errors.bias)}};
}

json figure_json(const Figure& figure) {
  return {{"value", rounded(figure.value)}, {"source", figure.source}};
}

std::string axis_text(const std::vector<std::int64_t>& axis) {
  return fmt::format("{}", fmt::join(axis, " "));
}

}  // namespace trainyard::fit
