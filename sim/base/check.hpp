// TY_CHECK: an assertion that is also active in release builds. It guards against programming
// errors. Errors of the user are reported as InputError (error.hpp).
//
//    TY_CHECK(op.name < workload.names.size(), op.name, workload.names.size());
//
// A failed check throws InternalError with the expression, the printed values and the source
// location. `main` turns it into exit code 70.
#pragma once

#include <source_location>
#include <sstream>
#include <stdexcept>
#include <string>

namespace trainyard {

struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

[[noreturn]] void check_failed(const char* expression, const std::string& values,
                               const std::source_location& where);

template <class... Values>
std::string check_values(const Values&... values) {
  std::ostringstream text;
  ((text << (text.tellp() > 0 ? ", " : "") << values), ...);
  return text.str();
}

}  // namespace trainyard

#define TY_CHECK(expression, ...)                                                    \
  do {                                                                               \
    if (!(expression)) [[unlikely]]                                                  \
      ::trainyard::check_failed(#expression, ::trainyard::check_values(__VA_ARGS__), \
                                std::source_location::current());                    \
  } while (false)
