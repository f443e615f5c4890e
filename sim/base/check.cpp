#include "sim/base/check.hpp"

#include <fmt/format.h>

namespace trainyard {

void check_failed(const char* expression, const std::string& values,
                  const std::source_location& where) {
  throw InternalError(fmt::format("internal error: {} is false{}{} at {}:{}", expression,
                                  values.empty() ? "" : " with ", values, where.file_name(),
                                  where.line()));
}

}  // namespace trainyard
