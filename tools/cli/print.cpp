#include "tools/cli/print.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "sim/base/error.hpp"
#include "sim/base/utf8.hpp"

namespace trainyard {

void print_text(std::string_view text) {
  const std::string shown = printable(text);
  if (std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size()) return;
  throw InputError(
      Problem{.file = {},
              .pointer = {},
              .problem = fmt::format("standard output cannot be written: {}", std::strerror(errno)),
              .hint = {}});
}

void tell(std::string_view text) { (void)std::fputs(printable(text).c_str(), stderr); }

void tell_over(std::string_view text) {
  constexpr std::size_t kColumns = 79;
  const std::string line = printable(text).substr(0, kColumns);
  const char* const end = text.empty() ? "\r" : "";
  (void)std::fputs(fmt::format("\r{:<{}}{}", line, kColumns, end).c_str(), stderr);
  std::fflush(stderr);
}

void keep_standard_streams_apart() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is the closed one: those below it are open by now.
    (void)::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace trainyard
